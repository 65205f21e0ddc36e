# MLIR 22, its TableGen functions, one precompiled header for every file that includes MLIR, and
# attune_mlir: what those files link.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
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

add_library(attune_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/Precompiled.cpp)
target_link_libraries(attune_pch PRIVATE attune_mlir)
target_precompile_headers(attune_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Precompiled.h)

# attune_mlir_library(NAME sources... [LINK libraries...]): a library compiled with the shared header.
function(attune_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC attune_mlir ${ARG_LINK})
  target_compile_options(${name} PRIVATE -Wno-unused-parameter) # TableGen output
  target_precompile_headers(${name} REUSE_FROM attune_pch)
endfunction()
