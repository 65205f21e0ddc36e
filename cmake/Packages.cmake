# The packages that the sources need. All that are missing are named at once, before anything compiles.
set(missing)

# attune_find(TITLE PACKAGE arguments of find_package...): the error names a missing package by its TITLE.
macro(attune_find title package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing "${title}")
  endif()
endmacro()

attune_find("LLVM and MLIR 22.1 (libmlir-22-dev, mlir-22-tools, llvm-22-dev)" MLIR 22.1 CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
attune_find("fmt (libfmt-dev)" fmt)
attune_find("nlohmann_json (nlohmann-json3-dev)" nlohmann_json)
attune_find("CLI11 (libcli11-dev)" CLI11)
if(ATTUNE_TESTS)
  attune_find("Catch2 2 (catch2)" Catch2 2)
endif()
find_package(Threads REQUIRED)

# attune_find_archive(VARIABLE FILE PACKAGE): a library that is linked statically.
macro(attune_find_archive variable file package)
  find_library(${variable} NAMES ${file})
  if(NOT ${variable})
    list(APPEND missing "${file} (${package})")
  endif()
endmacro()

attune_find_archive(ATTUNE_LIBZ libz.a zlib1g-dev)
attune_find_archive(ATTUNE_LIBZSTD libzstd.a libzstd-dev)
attune_find_archive(ATTUNE_LIBMD libmd.a libmd-dev)

# ATTUNE_INSTEAD: what a project that contains this one can do instead of compiling it.
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "attune's sources need packages that are missing: ${missing}. On Debian 12 scripts/install-dependencies "
                      "installs all of them. ${ATTUNE_INSTEAD}")
endif()
