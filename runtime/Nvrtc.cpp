#include "runtime/Nvrtc.h"

#include "runtime/CudaDriver.h"
#include "runtime/Environment.h"
#include "runtime/Log.h"
#include "runtime/SitePackages.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

using namespace attune;

struct Nvrtc::Library {
  std::string path;
  int version = 0;
  std::vector<int> archs; // numbers of the supported architectures, ascending: 80, 90, ...

  using Program = void *;
  const char *(*getErrorString)(int);
  int (*getVersion)(int *, int *);
  int (*getNumSupportedArchs)(int *);
  int (*getSupportedArchs)(int *);
  int (*createProgram)(Program *, const char *, const char *, int, const char *const *, const char *const *);
  int (*destroyProgram)(Program *);
  int (*compileProgram)(Program, int, const char *const *);
  int (*getProgramLogSize)(Program, size_t *);
  int (*getProgramLog)(Program, char *);
  int (*getCubinSize)(Program, size_t *);
  int (*getCubin)(Program, char *);
  int (*getPtxSize)(Program, size_t *);
  int (*getPtx)(Program, char *);

  /// Checks that this library compiles for `arch`.
  Expected<void> checkArch(const std::string &arch) const {
    int number = 0;
    if (!arch.starts_with("sm_") ||
        std::from_chars(arch.data() + 3, arch.data() + arch.size(), number).ec != std::errc())
      return Error{fmt::format("NVRTC compiles for no architecture '{}'; name one such as sm_90", arch)};
    if (!archs.empty() && std::find(archs.begin(), archs.end(), number) == archs.end())
      return Error{
          fmt::format("NVRTC {} ({}) does not compile for {}, only for sm_{}; install a newer CUDA toolkit or set "
                      "ATTUNE_NVRTC_PATH",
                      cudaVersionText(version), path, arch, fmt::join(archs, ", sm_"))};
    return {};
  }

  std::string logOf(Program program) const {
    std::string log;
    size_t size = 0;
    if (getProgramLogSize(program, &size) == 0 && size > 1) {
      log.resize(size);
      getProgramLog(program, log.data());
      log.resize(log.find_last_not_of(std::string("\0\n ", 3)) + 1);
    }
    return log;
  }

  /// Reads the cubin or the PTX of a compiled program. Gives NVRTC's result, 0 for success.
  int readCode(Program program, bool cubin, std::vector<char> &code) const {
    size_t size = 0;
    int result = cubin ? getCubinSize(program, &size) : getPtxSize(program, &size);
    code.resize(size);
    if (result == 0)
      result = cubin ? getCubin(program, code.data()) : getPtx(program, code.data());
    if (!cubin && !code.empty() && code.back() == '\0')
      code.pop_back();
    return result;
  }
};

Nvrtc::Nvrtc(std::unique_ptr<Library> library) : library(std::move(library)) {}
Nvrtc::~Nvrtc() = default;

int Nvrtc::version() const { return library->version; }
const std::string &Nvrtc::path() const { return library->path; }

static constexpr const char *standardOptions[] = {"--std=c++17", "--modify-stack-limit=false"};
std::string_view Nvrtc::options() { return "--std=c++17 --modify-stack-limit=false"; }

//===----------------------------------------------------------------------===//
// Finding and opening the NVRTC library
//===----------------------------------------------------------------------===//

std::vector<std::string> Nvrtc::candidates() {
  std::vector<std::string> paths;
  auto addFolder = [&](const std::string &pattern) {
    for (const char *name : {"/libnvrtc.so.13", "/libnvrtc.so.12"})
      for (std::string &path : matchingPaths(pattern + name))
        paths.push_back(std::move(path));
  };
  auto addPrefix = [&](const std::string &prefix) {
    addFolder(prefix + "/nvidia/cu13/lib");
    addFolder(prefix + "/nvidia/cuda_nvrtc/lib");
  };
  if (std::string chosen = valueOf(EnvironmentVariable::NvrtcPath); !chosen.empty()) {
    if (chosen.find(".so") != std::string::npos)
      paths.push_back(chosen);
    addFolder(chosen);
    addPrefix(chosen);
    return paths;
  }
  for (EnvironmentVariable variable : {EnvironmentVariable::CudaHome, EnvironmentVariable::CudaPath})
    if (std::string home = valueOf(variable); !home.empty())
      addFolder(home + "/lib64");
  addFolder("/usr/local/cuda/lib64");
  addFolder("/usr/local/cuda-*/lib64");
  paths.push_back("libnvrtc.so.13");
  paths.push_back("libnvrtc.so.12");
  for (const std::string &folder : sitePackages())
    addPrefix(folder);
  return paths;
}

/// Opens NVRTC's library of builtins, libnvrtc-builtins.so.13.0 for version 13000, from the folder of the opened library
/// `nvrtc`. NVRTC itself opens the builtins by that name without a folder. The loader finds a library that is open
/// already, but does not look into the folder of a Python package, or of a toolkit that /etc/ld.so.conf does not name.
/// Without such a file NVRTC's own search decides, and its log names what is missing.
static void openBuiltins(void *nvrtc, int version) {
  char folder[PATH_MAX];
  if (dlinfo(nvrtc, RTLD_DI_ORIGIN, folder) == 0)
    dlopen(fmt::format("{}/libnvrtc-builtins.so.{}", folder, cudaVersionText(version)).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Expected<std::unique_ptr<const Nvrtc>> Nvrtc::open(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Error{fmt::format("NVRTC does not open: {}", dlerror())};
  auto library = std::make_unique<Library>();
  library->path = path;
  const char *missing = nullptr;
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(handle, name));
    if (!entry && !missing)
      missing = name;
  };
  find(library->getErrorString, "nvrtcGetErrorString");
  find(library->getVersion, "nvrtcVersion");
  find(library->getNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  find(library->getSupportedArchs, "nvrtcGetSupportedArchs");
  find(library->createProgram, "nvrtcCreateProgram");
  find(library->destroyProgram, "nvrtcDestroyProgram");
  find(library->compileProgram, "nvrtcCompileProgram");
  find(library->getProgramLogSize, "nvrtcGetProgramLogSize");
  find(library->getProgramLog, "nvrtcGetProgramLog");
  find(library->getCubinSize, "nvrtcGetCUBINSize");
  find(library->getCubin, "nvrtcGetCUBIN");
  find(library->getPtxSize, "nvrtcGetPTXSize");
  find(library->getPtx, "nvrtcGetPTX");
  if (missing)
    return Error{fmt::format("{} has no entry point {}; install NVRTC 12.0 or newer", path, missing)};
  int major = 0, minor = 0, count = 0;
  library->getVersion(&major, &minor);
  library->version = 1000 * major + 10 * minor;
  if (library->version < 12000)
    return Error{fmt::format("{} is NVRTC {}, required is 12.0 or newer; install a newer one or set ATTUNE_NVRTC_PATH",
                             path, cudaVersionText(library->version))};
  openBuiltins(handle, library->version);
  if (library->getNumSupportedArchs(&count) == 0 && count > 0) {
    library->archs.resize(size_t(count));
    library->getSupportedArchs(library->archs.data());
  }
  return std::unique_ptr<const Nvrtc>(new Nvrtc(std::move(library)));
}

Expected<const Nvrtc *> Nvrtc::get() {
  static const Expected<const Nvrtc *> shared = []() -> Expected<const Nvrtc *> {
    std::string tried;
    for (const std::string &path : candidates()) {
      Expected<std::unique_ptr<const Nvrtc>> opened = open(path);
      if (opened) {
        logLine(LogLevel::Debug, "NVRTC {} is {}", cudaVersionText((*opened)->version()), path);
        return std::move(*opened).release();
      }
      tried += fmt::format("{}  {}", tried.empty() ? "" : "\n", opened.error().message);
    }
    if (const std::string chosen = valueOf(EnvironmentVariable::NvrtcPath); !chosen.empty())
      return Error{.message = fmt::format("ATTUNE_NVRTC_PATH is '{}', where no NVRTC opens; correct it, or unset it to "
                                          "look in CUDA toolkits and Python packages",
                                          chosen),
                   .excerpt = tried};
    return Error{.message =
                     "NVRTC was not found; install a CUDA toolkit or the Python package nvidia-cuda-nvrtc, or set "
                     "ATTUNE_NVRTC_PATH to the folder of libnvrtc.so",
                 .excerpt = tried};
  }();
  return shared;
}

//===----------------------------------------------------------------------===//
// Compiling with NVRTC
//===----------------------------------------------------------------------===//

/// Writes the source to a file that is not deleted, and returns its path; "" where the file cannot be written.
static std::string keepSource(const std::string &source, const std::string &name) {
  const std::string folder = valueOf(EnvironmentVariable::TmpDir);
  std::string stem;
  for (char c : name)
    stem += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  std::string path = fmt::format("{}/attune-{}-XXXXXX.cu", folder.empty() ? "/tmp" : folder, stem);
  int file = mkstemps(path.data(), 3);
  if (file < 0)
    return "";
  FILE *stream = fdopen(file, "w");
  bool written = stream && std::fwrite(source.data(), 1, source.size(), stream) == source.size();
  if (stream ? std::fclose(stream) != 0 : close(file) != 0)
    written = false;
  return written ? path : "";
}

/// What a user can do about a source that does not compile: where the source is kept, and the command that reproduces
/// the failure.
static std::string remedyFor(const std::string &source, const std::string &name, const std::string &archName,
                             const std::vector<std::string> &extraOptions, bool cubin) {
  std::string kept = keepSource(source, name);
  std::string standard = "--std=c++17"; // options(), without --modify-stack-limit, which nvcc lacks
  for (const std::string &option : extraOptions)
    standard += " " + option;
  return kept.empty() ? "the source could not be kept, set TMPDIR to a writable folder"
                      : fmt::format("the source is {}; reproduce with: nvcc --gpu-architecture={} {} {} "
                                    "-o /dev/null {}",
                                    kept, archName, standard, cubin ? "--cubin" : "--ptx", kept);
}

Expected<Nvrtc::Output> Nvrtc::compile(const std::string &source, const std::string &name, const std::string &arch,
                                       const std::vector<std::string> &extraOptions, bool cubin) const {
  if (Expected<void> good = library->checkArch(arch); !good)
    return good.error();
  std::string archName = cubin ? arch : "compute_" + arch.substr(3);
  std::vector<std::string> texts = {"--gpu-architecture=" + archName};
  texts.insert(texts.end(), std::begin(standardOptions), std::end(standardOptions));
  texts.insert(texts.end(), extraOptions.begin(), extraOptions.end());
  std::vector<const char *> options;
  for (const std::string &text : texts)
    options.push_back(text.c_str());

  auto begin = std::chrono::steady_clock::now();
  struct ProgramScope {
    const Library &library;
    Library::Program program = nullptr;
    ~ProgramScope() {
      if (program)
        library.destroyProgram(&program);
    }
  } scope{*library};
  std::string fileName = name + ".cu";
  Output output;
  int code = library->createProgram(&scope.program, source.c_str(), fileName.c_str(), 0, nullptr, nullptr);
  if (code == 0) {
    code = library->compileProgram(scope.program, int(options.size()), options.data());
    output.log = library->logOf(scope.program);
  }
  if (code == 0)
    code = library->readCode(scope.program, cubin, output.code);
  output.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (code == 0) {
    logLine(LogLevel::Info, "NVRTC {} compiled {} for {} in {:.1f} ms: {} bytes", cudaVersionText(library->version),
            name, archName, output.milliseconds, output.code.size());
    return output;
  }

  return Error{.message = fmt::format("NVRTC {} does not compile '{}' for {} ({}); {}",
                                      cudaVersionText(library->version), name, arch, library->getErrorString(code),
                                      remedyFor(source, name, archName, extraOptions, cubin)),
               .excerpt = output.log};
}

Expected<Nvrtc::Output> Nvrtc::compileCubin(const std::string &source, const std::string &name, const std::string &arch,
                                            const std::vector<std::string> &extraOptions) const {
  return compile(source, name, arch, extraOptions, true);
}

Expected<Nvrtc::Output> Nvrtc::compilePtx(const std::string &source, const std::string &name, const std::string &arch,
                                          const std::vector<std::string> &extraOptions) const {
  return compile(source, name, arch, extraOptions, false);
}
