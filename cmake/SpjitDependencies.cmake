# What the library needs; CONTRIBUTING.md says why. scripts/build/setup.sh installs it.
# spjit-config.cmake.in finds the same again for users of a static libspjit.

option(SPJIT_STATIC_DEPENDENCIES "Link what the library needs statically, where there is a way" OFF)
if(SPJIT_STATIC_DEPENDENCIES)
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES ${CMAKE_STATIC_LIBRARY_SUFFIX})
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig)
option(SPJIT_PKG_CONFIG "Ask pkg-config for libzip and libxxhash" ON)

# spjit_find_library(NAME HEADER LIBRARY): the target PkgConfig::NAME, from pkg-config or, where
# there is none, it does not know NAME (a folder made by scripts/build/vendor.sh), or the library may be
# static and elsewhere (CMAKE_LIBRARY_PATH), by looking for the files.
function(spjit_find_library name header library)
  if(PkgConfig_FOUND AND SPJIT_PKG_CONFIG AND NOT SPJIT_STATIC_DEPENDENCIES)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${name})
  endif()
  if(TARGET PkgConfig::${name})
    return()
  endif()
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${name}_LIBRARY ${library} REQUIRED)
  add_library(PkgConfig::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(PkgConfig::${name} INTERFACE "${${name}_INCLUDE_DIR}")
  target_link_libraries(PkgConfig::${name} INTERFACE "${${name}_LIBRARY}")
endfunction()

spjit_find_library(libzip zip.h zip)
spjit_find_library(libxxhash xxhash.h xxhash)

if(SPJIT_STATIC_DEPENDENCIES)
  # fmt's own CMake files name its shared library alone, and a static libzip needs zlib.
  find_library(fmt_LIBRARY fmt REQUIRED)
  set_target_properties(fmt::fmt PROPERTIES IMPORTED_CONFIGURATIONS "" IMPORTED_LOCATION
                        "${fmt_LIBRARY}")
  target_link_libraries(PkgConfig::libzip INTERFACE ZLIB::ZLIB)
endif()

set(SPJIT_HAVE_LLVM OFF)
if(NOT SPJIT_LLVM STREQUAL "OFF")
  # 19.1, not 19: LLVM releases start at .1, and its package matches major and minor exactly.
  # LLVM's own config looks for its optional dependencies with C code.
  enable_language(C)
  find_package(LLVM 19.1 CONFIG QUIET PATHS /usr/lib/llvm-19)
  if(LLVM_FOUND)
    set(SPJIT_HAVE_LLVM ON)
    message(STATUS "spjit: LLVM ${LLVM_PACKAGE_VERSION} (${LLVM_DIR})")
  elseif(SPJIT_LLVM STREQUAL "ON")
    message(FATAL_ERROR "SPJIT_LLVM=ON, but LLVM 19 was not found: install llvm-19-dev or set "
                        "LLVM_DIR")
  else()
    message(STATUS "spjit: LLVM 19 not found; the generic host target is left out")
  endif()
endif()

# Ranking models are trained with XGBoost, and used without: libspjit does not link it. Debian's
# CMake files of it ask for a program of another package, so this looks for the files.
set(SPJIT_HAVE_XGBOOST OFF)
if(NOT SPJIT_TRAINING STREQUAL "OFF")
  find_path(xgboost_INCLUDE_DIR xgboost/c_api.h)
  find_library(xgboost_LIBRARY xgboost)
  if(xgboost_INCLUDE_DIR AND xgboost_LIBRARY)
    set(SPJIT_HAVE_XGBOOST ON)
    add_library(spjit_xgboost INTERFACE IMPORTED GLOBAL)
    target_include_directories(spjit_xgboost SYSTEM INTERFACE "${xgboost_INCLUDE_DIR}")
    target_link_libraries(spjit_xgboost INTERFACE "${xgboost_LIBRARY}")
  elseif(SPJIT_TRAINING STREQUAL "ON")
    message(FATAL_ERROR "SPJIT_TRAINING=ON, but XGBoost was not found: install libxgboost-dev or "
                        "set xgboost_INCLUDE_DIR and xgboost_LIBRARY")
  else()
    message(STATUS "spjit: XGBoost not found; training of ranking models is left out")
  endif()
endif()
