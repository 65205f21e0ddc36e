# MLIR 22, its TableGen functions, one precompiled header for every file that includes MLIR, and
# attune_mlir: what those files link.
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(attune_mlir INTERFACE)
target_include_directories(attune_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(attune_mlir INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR})
# The shared libraries link in a quarter of a second; an executable with the property ATTUNE_STATIC (tools/bundle) gets the
# archives.
include(cmake/StaticMLIR.cmake)
set(static $<BOOL:$<TARGET_PROPERTY:ATTUNE_STATIC>>)
target_link_libraries(attune_mlir INTERFACE $<IF:${static},attune_static_mlir,MLIR> $<$<NOT:${static}>:LLVM>)

# What compiles kernels is built for size: a quarter less time to build, and kernels take up to 5% longer to compile
# (docs/log/compile-time.md). Targets with the property ATTUNE_HOT keep the build type's level, and are compiled without the header.
set(hot $<BOOL:$<TARGET_PROPERTY:ATTUNE_HOT>>)
target_compile_options(attune_mlir INTERFACE $<$<AND:$<CONFIG:Release>,$<NOT:${hot}>>:-Os>)

# attune_precompiled(NAME options...): a target whose precompiled header other targets use, compiled with the same options.
function(attune_precompiled name)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/Precompiled.cpp)
  target_link_libraries(${name} PRIVATE attune_mlir)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Precompiled.h)
endfunction()

# Like MLIR itself, the libraries that compile kernels neither throw exceptions nor use run-time type information, which makes
# their code a sixth smaller. Tests use both.
set(attune_mlir_options -fno-exceptions -fno-rtti)
attune_precompiled(attune_pch ${attune_mlir_options})
if(ATTUNE_TESTS)
  attune_precompiled(attune_test_pch)
endif()

# attune_mlir_library(NAME sources... [HOT | TEST] [LINK libraries...]): a library compiled with the shared header, or HOT without;
# TEST with the one for tests.
function(attune_mlir_library name)
  cmake_parse_arguments(ARG "HOT;TEST" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC attune_mlir ${ARG_LINK})
  target_compile_options(${name} PRIVATE -Wno-unused-parameter) # TableGen output
  if(ARG_TEST)
    target_precompile_headers(${name} REUSE_FROM attune_test_pch)
    return()
  endif()
  target_compile_options(${name} PRIVATE ${attune_mlir_options})
  if(ARG_HOT)
    set_target_properties(${name} PROPERTIES ATTUNE_HOT ON)
  else()
    target_precompile_headers(${name} REUSE_FROM attune_pch)
  endif()
endfunction()
