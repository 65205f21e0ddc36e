#!/usr/bin/env python3
"""Installs attune into an empty prefix and builds the guide's programs against it, as a user would.

    check_package.py --build build --source . --compilers gcc:g++ clang-22:clang++-22

By CMake and by pkg-config, in C++ and in C, with each pair of compilers; as a subdirectory; beside another LLVM in one process. The library
shows attune's names alone and asks for no newer glibc than the guide says.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

from command import run

GLIBC = (2, 35)  # the newest that the library may ask for


def check(condition, message):
    if not condition:
        sys.exit(message)


def programs(pages):
    """The guide's files: code blocks whose first line is a comment that names one."""
    blocks = re.findall(r"^```\w+\n((?://|#|/\*) (\S+\.(?:cpp|c|txt)).*?)^```", pages, re.M | re.S)
    return {name: text for text, name in blocks}


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def check_symbols(library):
    names = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    check(len(names) > 80, f"{library} shows {len(names)} names, which are too few")
    for name in names:
        check(re.match(r"attune_|_ZN?K?6attune|_ZT[ISV]N6attune|_ZNK6attune", name), f"{library} shows {name}, which is not attune's")
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", run(["readelf", "-d", library]))
    foreign = [name for name in needed if not re.match(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux", name)]
    check(not foreign, f"{library} needs {foreign}")
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(2\.\d+)", run(["readelf", "-V", library]))]
    check(max(versions) <= GLIBC, f"{library} needs glibc {max(versions)}, but at most {GLIBC} is meant")


def check_cmake(work, prefix, files, compilers, source):
    c, cxx = compilers
    write(work / "project", files)
    run(["cmake", "-S", work / "project", "-B", work / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={c}",
         f"-DCMAKE_CXX_COMPILER={cxx}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror -std=c99", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror"])
    run(["cmake", "--build", work / "build"])
    for program in ("mine", "mine-in-c"):
        check(run([work / "build" / program]) == "3.000\n", f"{program} by {cxx} does not print 3.000")
    # A project in C alone.
    only = {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(only LANGUAGES C)\nfind_package(attune REQUIRED)\n"
                              "add_executable(mine mine.c)\ntarget_link_libraries(mine PRIVATE attune::attune)\n", "mine.c": files["mine.c"]}
    write(work / "c", only)
    run(["cmake", "-S", work / "c", "-B", work / "c-build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={c}"])
    run(["cmake", "--build", work / "c-build"])
    check(run([work / "c-build" / "mine"]) == "3.000\n", "the project in C alone does not print 3.000")


def check_subdirectory(work, files, compilers, source):
    """Configured whole; of its objects the user's own, as CMake would compile it."""
    c, cxx = compilers
    write(work, {"CMakeLists.txt": files["CMakeLists.txt"].replace("find_package(attune 0.2 REQUIRED)", f"add_subdirectory({source} attune)"),
                 "mine.cpp": files["mine.cpp"], "mine.c": files["mine.c"]})
    run(["cmake", "-S", work, "-B", work / "build", "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCMAKE_C_COMPILER={c}",
         f"-DCMAKE_CXX_COMPILER={cxx}"])
    commands = {pathlib.Path(entry["file"]).name: entry for entry in json.loads((work / "build" / "compile_commands.json").read_text())}
    for name in ("mine.cpp", "mine.c"):
        (work / "build" / "CMakeFiles" / "mine.dir").mkdir(parents=True, exist_ok=True)
        (work / "build" / "CMakeFiles" / "mine-in-c.dir").mkdir(parents=True, exist_ok=True)
        run(shlex.split(commands[name]["command"]), cwd=commands[name]["directory"])
    check(not any("/tests/" in entry for entry in commands), "a subdirectory builds attune's tests")


def check_pkg_config(work, prefix, files, compilers, commands):
    """The guide's two commands as they are written, with these compilers as cc and c++."""
    write(work, files)
    write(work / "bin", {})
    for name, compiler in zip(("cc", "c++"), compilers):
        (work / "bin" / name).symlink_to(shutil.which(compiler))
    environment = {**os.environ, "PATH": f"{work / 'bin'}:{os.environ['PATH']}", "PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
    environment.pop("LD_LIBRARY_PATH", None)
    for command in commands:
        run(["sh", "-c", command], cwd=work, env=environment)
        check(run([work / "mine"], env=environment) == "3.000\n", f"{command} by {compilers}: mine does not print 3.000")


def check_other_llvm(work, prefix, files, llvm):
    """LLVM's own library is loaded first, and both compile in one process."""
    text = files["mine.c"].replace("int main(void) {", """#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
int main(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMModuleRef module = LLVMModuleCreateWithName("other");
  LLVMTargetRef target = NULL;
  char *message = NULL;
  if (LLVMGetTargetFromTriple("x86_64-linux-gnu", &target, &message))
    return 2;
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, "x86_64-linux-gnu", "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
""").replace("  attune_kernel_free(kernel);", """  LLVMMemoryBufferRef object = NULL;
  LLVMAddFunction(module, "f", LLVMFunctionType(LLVMVoidType(), NULL, 0, 0));
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object) || !LLVMGetBufferSize(object))
    return 3;
  attune_kernel_free(kernel);""")
    write(work, {"both.c": text})
    lib = next(prefix.glob("lib*/**/libattune.so")).parent
    run(["gcc", work / "both.c", "-o", work / "both", f"-I{prefix / 'include'}", f"-I{llvm}/include", f"-L{llvm}/lib", "-lLLVM", f"-Wl,-rpath,{llvm}/lib", f"-L{lib}",
         "-lattune", f"-Wl,-rpath,{lib}"])
    check(run([work / "both"]) == "3.000\n", "beside another LLVM the program does not print 3.000")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--compilers", nargs="+", required=True, help="pairs C:C++")
    parser.add_argument("--llvm", required=True, help="the prefix of an LLVM with its shared library")
    given = parser.parse_args()
    source = given.source.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        os.environ["ATTUNE_CACHE_DIR"] = str(work / "cache")
        prefix = work / "prefix"
        run(["cmake", "--install", given.build, "--prefix", prefix])
        library = next(prefix.glob("lib*/**/libattune.so"))
        pages = "".join((source / "docs" / "guide" / page).read_text() for page in ("cpp.md", "c.md"))
        files = programs(pages)
        check(set(files) == {"CMakeLists.txt", "mine.cpp", "mine.c"}, f"the guide has programs {sorted(files)}")
        commands = re.findall(r"^    (c(?:c|\+\+) .*pkg-config.*)$", pages, re.M)
        check(len(commands) == 2, f"the guide has {len(commands)} commands with pkg-config")
        check_symbols(library)
        for i, pair in enumerate(given.compilers):
            compilers = pair.split(":")
            check_cmake(work / f"cmake{i}", prefix, files, compilers, source)
            check_pkg_config(work / f"pkg{i}", prefix, files, compilers, commands)
            check_subdirectory(work / f"sub{i}", files, compilers, source)
        check_other_llvm(work / "both", prefix, files, given.llvm)
        command = run([prefix / "bin" / "attune", "--version"])
        check(command.startswith("attune "), f"the installed command prints {command}")
        print(f"libattune.so {library.stat().st_size / 2**20:.1f} MiB; compilers {', '.join(given.compilers)}; {command.strip()}")


main()
