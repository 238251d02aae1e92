# `cpack` makes Debian packages (SPJIT_DEB): libspjit0.1, the shared library; libspjit-dev, what a
# program needs to be built with it; spjit, the command line tool. scripts/release/release.sh sets the prefix
# to /usr, and SOURCE_DATE_EPOCH to the time of the commit, so that one commit gives one package.

if(NOT BUILD_SHARED_LIBS)
  message(FATAL_ERROR "SPJIT_DEB needs BUILD_SHARED_LIBS=ON: libspjit0.1 is the shared library")
endif()
if(NOT SPJIT_BUILD_TOOLS)
  message(FATAL_ERROR "SPJIT_DEB needs SPJIT_BUILD_TOOLS=ON: the package spjit is the tool")
endif()

set(SPJIT_DEB_MAINTAINER "" CACHE STRING "Name <address> in the Debian packages' control files")
if(NOT SPJIT_DEB_MAINTAINER MATCHES "^[^<]+ <[^@ ]+@[^@ ]+>$")
  message(FATAL_ERROR "SPJIT_DEB_MAINTAINER is '${SPJIT_DEB_MAINTAINER}'; expected Name <address>")
endif()

set(deb_revision 1)
set(deb_version "${PROJECT_VERSION}-${deb_revision}")
set(deb_runtime "libspjit${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(deb_dir "${PROJECT_BINARY_DIR}/package/deb")

include(SpjitLicenses)

# Each package has its license and changes, as Debian's policy says.
string(TIMESTAMP deb_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(package runtime=${deb_runtime} dev=libspjit-dev tool=spjit)
  string(REGEX REPLACE "=.*" "" component "${package}")
  string(REGEX REPLACE ".*=" "" name "${package}")
  set(doc "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/debian/copyright" DESTINATION "${doc}"
          COMPONENT ${component})
  if(NOT component STREQUAL "dev")
    # Headers alone: their code is in the binaries.
    spjit_install_licenses("${doc}/third-party" ${component} libcli11-dev nlohmann-json3-dev)
  endif()
  # -n: without the time at which it was packed.
  install(CODE "
    set(doc \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${doc}\")
    file(WRITE \"\${doc}/changelog.Debian\"
         \"spjit (${deb_version}) bookworm; urgency=medium\\n\\n\"
         \"  * Version ${PROJECT_VERSION}; changelog.gz says what is in it.\\n\\n\"
         \" -- ${SPJIT_DEB_MAINTAINER}  ${deb_date}\\n\")
    file(READ \"${PROJECT_SOURCE_DIR}/CHANGELOG.md\" changes)
    file(WRITE \"\${doc}/changelog\" \"\${changes}\")
    execute_process(COMMAND gzip -9nf changelog changelog.Debian WORKING_DIRECTORY \"\${doc}\"
                    COMMAND_ERROR_IS_FATAL ANY)
    " COMPONENT ${component})
endforeach()
install(CODE "
  execute_process(COMMAND \${CMAKE_COMMAND} \"-DTOOL=$<TARGET_FILE:spjit_tool>\"
    \"-DFOLDER=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\"
    \"-DVERSION=${PROJECT_VERSION}\" -P \"${CMAKE_CURRENT_LIST_DIR}/ManualPages.cmake\"
    COMMAND_ERROR_IS_FATAL ANY)
  " COMPONENT tool)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME spjit)
set(CPACK_PACKAGE_CONTACT "${SPJIT_DEB_MAINTAINER}")
# Each package has a summary of its own, the first line of its description.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_COMPONENTS_ALL runtime dev tool)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
# spjit.pc names the prefix that it is installed with.
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${deb_revision})
set(CPACK_DEBIAN_PACKAGE_SOURCE spjit)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${deb_runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_LIST_DIR}/debian/triggers")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "JIT compiler for sparse kernels: library
spjit turns a sparse matrix, such as the pruned weights of a network, into a
kernel that multiplies by it, for this CPU or for an NVIDIA GPU.

This package has the shared library.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libspjit-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${deb_runtime} (= ${deb_version})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "JIT compiler for sparse kernels: headers
spjit turns a sparse matrix, such as the pruned weights of a network, into a
kernel that multiplies by it, for this CPU or for an NVIDIA GPU.

This package has the headers for C++ and C, and what CMake and pkg-config need
to find the library.")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME spjit)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS libopenblas0-pthread)
set(CPACK_COMPONENT_TOOL_DESCRIPTION "JIT compiler for sparse kernels: command line
spjit turns a sparse matrix, such as the pruned weights of a network, into a
kernel that multiplies by it, for this CPU or for an NVIDIA GPU.

This package has the command line tool, which compiles, times and explains
kernels, and keeps them in bundles and caches.")

include(CPack)
