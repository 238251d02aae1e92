# SPJIT_VERSION, read from the header that users compile against.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/spjit/version.hpp" version_lines
     REGEX "^#define SPJIT_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
string(REGEX REPLACE "[^0-9;]" "" version_numbers "${version_lines}")
list(JOIN version_numbers "." SPJIT_VERSION)
if(NOT SPJIT_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
  message(FATAL_ERROR "include/spjit/version.hpp: expected SPJIT_VERSION_MAJOR, _MINOR and _PATCH "
                      "as numbers, got '${SPJIT_VERSION}'")
endif()
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/spjit/version.hpp" version_text
     REGEX "^#define SPJIT_VERSION \"${SPJIT_VERSION}\"$")
if(NOT version_text)
  message(FATAL_ERROR "include/spjit/version.hpp: SPJIT_VERSION is not \"${SPJIT_VERSION}\", which "
                      "its three numbers say")
endif()
# Editing the header configures again.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${CMAKE_CURRENT_LIST_DIR}/../include/spjit/version.hpp")
