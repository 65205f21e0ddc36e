# libattune.so, the one library that users link: attune::attune, here and from an installed prefix. LLVM and MLIR are in it, and hidden.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All objects of what the public headers declare, referred to or not.
add_library(attune_library SHARED ${PROJECT_SOURCE_DIR}/cmake/package/Fmt.cpp ${PROJECT_SOURCE_DIR}/cmake/package/Glibc235.cpp
  $<TARGET_OBJECTS:attune_dsl> $<TARGET_OBJECTS:attune_runtime> $<TARGET_OBJECTS:attune_driver>)
add_library(attune::attune ALIAS attune_library)
set(exports ${PROJECT_SOURCE_DIR}/cmake/package/exports.map)
set_target_properties(attune_library PROPERTIES
  OUTPUT_NAME attune EXPORT_NAME attune VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  ATTUNE_STATIC ON LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(attune_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(attune_library INTERFACE cxx_std_20)
target_link_libraries(attune_library PRIVATE
  attune_cli attune_static_mlir)
# A sanitizer's runtime is the program's.
if(NOT ATTUNE_SANITIZE)
  target_link_options(attune_library PRIVATE -Wl,--no-undefined)
endif()
# Its code stays: threads of a pool and compiled kernels may outlive a dlclose.
target_link_options(attune_library PRIVATE -Wl,--version-script=${exports} -Wl,-z,nodelete -Wl,-u,attune_main $<$<CONFIG:Release,MinSizeRel>:-Wl,-s>)

# The command: all of it is in the library.
add_executable(attune ${PROJECT_SOURCE_DIR}/tools/attune/main.cpp)
target_include_directories(attune PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(attune PRIVATE attune_library)
set_target_properties(attune PROPERTIES INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})

install(TARGETS attune_library EXPORT attuneTargets)
install(TARGETS attune RUNTIME)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/attune TYPE INCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md TYPE DOC)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
install(EXPORT attuneTargets NAMESPACE attune:: DESTINATION ${package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/package/attuneConfig.cmake.in ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake ${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake DESTINATION ${package})
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/attune.pc.in ${PROJECT_BINARY_DIR}/package/attune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/attune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
