# Flags every target of the project shares, and how folders become targets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# Warnings and sanitizers; linked privately by everything built here, by nothing that is installed.
add_library(spjit_flags INTERFACE)
target_compile_features(spjit_flags INTERFACE cxx_std_20)
target_compile_options(spjit_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual)
# A product and a sum are rounded each, unless the source has an FMA: bits are what the plan says.
target_compile_options(spjit_flags INTERFACE -ffp-contract=off)
# g++ collects its garbage all the time until it has this much memory (KiB): a tenth of the time.
target_compile_options(spjit_flags INTERFACE
                       "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=524288>")
if(SPJIT_WERROR)
  target_compile_options(spjit_flags INTERFACE -Werror)
endif()
# Sources that are compiled together share what their headers cost, two thirds of a compilation. A
# source that forgets an include may then compile beside one that has it: lint compiles each by
# itself (SPJIT_UNITY=OFF).
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
if(NOT SPJIT_UNITY STREQUAL "OFF")
  set(CMAKE_UNITY_BUILD ON)
  # True of the sources together only: a name that another one of them has too, and a type of a
  # source that is now a header to the compiler. And g++ 12 sees a string overlap itself in some of
  # them (GCC bug 105651).
  target_compile_options(spjit_flags INTERFACE -Wno-shadow
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-subobject-linkage>)
endif()
if(SPJIT_SANITIZE)
  target_compile_options(spjit_flags INTERFACE -fsanitize=${SPJIT_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The vptr check opens a pipe for each object it has not seen; a test that runs out of file
  # descriptors on purpose would fail in it.
  target_compile_options(spjit_flags INTERFACE -fno-sanitize=vptr)
  target_link_options(spjit_flags INTERFACE -fsanitize=${SPJIT_SANITIZE})
endif()

# spjit_compile_fast(): the targets of this folder, made after this, take longer to compile than they
# ever run. -Og takes two thirds of the time of -O1, and g++ 12 then calls a std::stop_source
# uninitialized that it is not.
macro(spjit_compile_fast)
  string(REPLACE "-O3" "-Og -Wno-maybe-uninitialized" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_SANITIZED "${CMAKE_CXX_FLAGS_SANITIZED}")
endmacro()

# spjit_compile_alone(SOURCES...): also where SPJIT_UNITY compiles the others together. The build
# folder has a list of them, for scripts/check/check_names.py.
file(WRITE "${PROJECT_BINARY_DIR}/compiled_alone.txt" "")
function(spjit_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  foreach(source IN LISTS ARGN)
    get_filename_component(source "${source}" ABSOLUTE)
    file(APPEND "${PROJECT_BINARY_DIR}/compiled_alone.txt" "${source}\n")
  endforeach()
endfunction()

# spjit_compile_mutated_alone(): for a folder's targets, the sources that the short list of mutations
# changes (where SPJIT_UNITY is MUTATED, the whole list). scripts/check/mutate.py links their objects
# changed, so each needs one of its own.
function(spjit_compile_mutated_alone)
  if(NOT SPJIT_UNITY MATCHES "^(AUTO|MUTATED)$")
    return()
  endif()
  set(found)
  file(GLOB lists CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/mutations/*.toml")
  foreach(list IN LISTS lists)
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
    file(STRINGS "${list}" lines REGEX "^(\\[\\[mutation|(file|compile|short) = )")
    list(APPEND lines "[[mutation]]")
    set(source)
    set(is_short OFF)
    foreach(line IN LISTS lines)
      if(line MATCHES "^file = '(.*)'")
        set(source "${CMAKE_MATCH_1}")
      elseif(line MATCHES "^compile = '(.*)'")
        set(source "${CMAKE_MATCH_1}")  # it is written behind `file`
      elseif(line STREQUAL "short = true")
        set(is_short ON)
      elseif(line MATCHES "^\\[\\[")
        if(source AND (is_short OR SPJIT_UNITY STREQUAL "MUTATED"))
          list(APPEND found "${source}")
        endif()
        set(source)
        set(is_short OFF)
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(TRANSFORM found PREPEND "${PROJECT_SOURCE_DIR}/")
  spjit_compile_alone(${found})
endfunction()

# Objects for a shared library that exports only what says so.
function(spjit_as_module target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# spjit_add_module(NAME [LINK libraries...] [EXCLUDE pattern...])
# An object library `spjit_NAME` of every *.cpp in this folder and below, but those whose paths from
# here match a pattern; it ends up in libspjit.
function(spjit_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "EXCLUDE;LINK")
  file(GLOB_RECURSE sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS *.cpp)
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  spjit_compile_mutated_alone()
  add_library(spjit_${name} OBJECT ${sources})
  spjit_as_module(spjit_${name})
  target_include_directories(spjit_${name} PRIVATE "${PROJECT_SOURCE_DIR}"
                             "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(spjit_${name} PRIVATE spjit_flags ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY SPJIT_MODULES spjit_${name})
  set_property(GLOBAL APPEND PROPERTY SPJIT_LINK ${ARG_LINK})
endfunction()

# spjit_embed_files(TARGET LIST FOLDER SUFFIX): makes the files FOLDER/*SUFFIX part of a target, as
# the list spjit::LIST of EmbeddedFile, which a header has to declare.
function(spjit_embed_files target list folder suffix)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*${suffix}")
  set(script "${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${list}.cpp")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${source}" "-DLIST=${list}" "-DSUFFIX=${suffix}"
            "-DFILES=${files}" -P "${script}"
    DEPENDS ${files} "${script}"
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE "${source}")
endfunction()

# A folder that has no CMakeLists.txt yet is left out, and the configure log says so.
macro(spjit_add_folder folder)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  else()
    message(STATUS "spjit: ${folder}/ has no CMakeLists.txt yet; left out")
  endif()
endmacro()

macro(spjit_add_modules)
  foreach(folder IN ITEMS ${ARGN})
    spjit_add_folder(${folder})
  endforeach()
endmacro()
