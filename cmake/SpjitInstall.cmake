# `cmake --install`: the library, its headers, a CMake package and a pkg-config file. By component:
# `runtime` is what programs run with, `dev` what they are built with, `tool` the command line tool.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spjit")
install(TARGETS spjit EXPORT spjit-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
install(DIRECTORY include/spjit DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev
        FILES_MATCHING PATTERN "*.hpp")
install(FILES include/spjit.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
install(EXPORT spjit-targets NAMESPACE spjit:: DESTINATION "${package_dir}" COMPONENT dev)

# A shared libspjit carries its own dependencies; a static one passes them on to the user's link.
set(SPJIT_PACKAGE_IS_STATIC OFF)
if(NOT BUILD_SHARED_LIBS)
  set(SPJIT_PACKAGE_IS_STATIC ON)
endif()
configure_package_config_file(cmake/spjit-config.cmake.in
                              "${PROJECT_BINARY_DIR}/package/spjit-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a minor version may break the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/spjit-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/spjit-config.cmake"
              "${PROJECT_BINARY_DIR}/package/spjit-config-version.cmake"
        DESTINATION "${package_dir}" COMPONENT dev)

# pkg-config's own variables need a path below the prefix or an absolute one.
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(SPJIT_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(SPJIT_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(SPJIT_PC_REQUIRES "")
set(SPJIT_PC_LIBS "")
if(SPJIT_PACKAGE_IS_STATIC)
  set(SPJIT_PC_REQUIRES "libzip zlib libcrypto libxxhash")
  set(SPJIT_PC_LIBS "-lfmt -pthread -ldl")
  if(SPJIT_HAVE_LLVM)
    string(APPEND SPJIT_PC_LIBS " -L${LLVM_LIBRARY_DIR} -lLLVM-${LLVM_VERSION_MAJOR}")
  endif()
endif()
configure_file(cmake/spjit.pc.in "${PROJECT_BINARY_DIR}/package/spjit.pc.in" @ONLY)
# The prefix is known only when installing: `cmake --install --prefix` may differ from here.
set(pc_script "${PROJECT_BINARY_DIR}/package/install_pc.cmake")
file(CONFIGURE OUTPUT "${pc_script}" @ONLY CONTENT [[
file(READ "@PROJECT_BINARY_DIR@/package/spjit.pc.in" text)
string(REPLACE "<prefix>" "${CMAKE_INSTALL_PREFIX}" text "${text}")
file(WRITE "@PROJECT_BINARY_DIR@/package/spjit.pc" "${text}")
]])
install(SCRIPT "${pc_script}" COMPONENT dev)
install(FILES "${PROJECT_BINARY_DIR}/package/spjit.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
