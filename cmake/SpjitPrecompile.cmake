# Headers that most sources include, compiled once for targets with the same flags. Off by default:
# with them, a source that forgets to include one of them still compiles.

# spjit_add_precompiled(NAME HEADERS...): an object library that holds precompiled headers, these
# and those of the standard library and fmt.
function(spjit_add_precompiled name)
  set(source "${PROJECT_BINARY_DIR}/${name}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// A target needs a source.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(${name} PRIVATE spjit_flags fmt::fmt)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <limits> <map>
    <memory> <optional> <set> <span> <string> <string_view> <utility> <vector> <fmt/format.h>
    ${ARGN})
endfunction()

# spjit_precompile(TARGET NAME): lets a target use them.
function(spjit_precompile target name)
  if(SPJIT_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

if(SPJIT_PRECOMPILE)
  spjit_add_precompiled(spjit_module_headers)
  spjit_as_module(spjit_module_headers)
endif()
