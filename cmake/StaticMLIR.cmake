# attune_static_mlir: MLIR and LLVM from their archives, for what needs neither libMLIR.so nor libLLVM.so.
#
# The CMake targets of the archives export links to libLLVM.so and libMLIR.so (Debian builds them so), hence the archives are
# named by path. lld takes from them only the members that something refers to, in any order.
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
list(FILTER archives EXCLUDE REGEX "/lib(MLIRCAPI|MLIR[A-Za-z]*Test|LLVMTestingSupport|LLVMTestingAnnotations)")

add_library(attune_static_mlir INTERFACE)
target_link_libraries(attune_static_mlir INTERFACE ${archives} ${ATTUNE_LIBZ} ${ATTUNE_LIBZSTD} Threads::Threads ${CMAKE_DL_LIBS} rt m)
target_link_options(attune_static_mlir INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-fuse-ld=lld> $<$<CXX_COMPILER_ID:GNU>:-B${LLVM_TOOLS_BINARY_DIR}> # clang has it already
  -Wl,--gc-sections -Wl,--icf=all -Wl,--as-needed)
