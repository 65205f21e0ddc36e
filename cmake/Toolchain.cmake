# Warnings, sanitizers, ccache and the linker, for every target.
find_program(ATTUNE_CCACHE ccache)
if(ATTUNE_CCACHE)
  # Sloppy on times only: the precompiled header is compared by its content.
  set(CMAKE_CXX_COMPILER_LAUNCHER /usr/bin/env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${ATTUNE_CCACHE})
endif()
add_compile_options(-Wall -Wextra $<$<BOOL:${ATTUNE_DEVELOP}>:-Werror> -ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Xclang -fno-pch-timestamp)
  add_link_options(-fuse-ld=lld)
endif()
if(ATTUNE_SANITIZE)
  # What compiles kernels has no run-time types (cmake/MLIR.cmake), which the check of vptr reads.
  add_compile_options(-fsanitize=${ATTUNE_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ATTUNE_SANITIZE})
endif()

# attune_built_for_size(TARGET): a quarter less time to build, and up to 5% longer to run (docs/log/compile-time.md).
function(attune_built_for_size target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
endfunction()
