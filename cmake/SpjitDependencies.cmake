# What the library needs. README says why each is there; scripts/setup.sh installs them.
# spjit-config.cmake.in finds the same again for users of a static libspjit.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET GLOBAL libzip)
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET GLOBAL libxxhash)

set(SPJIT_HAVE_LLVM OFF)
if(NOT SPJIT_LLVM STREQUAL "OFF")
  # 19.1, not 19: LLVM releases start at .1, and its package matches major and minor exactly.
  # LLVM's own config looks for its optional dependencies with C code.
  enable_language(C)
  find_package(LLVM 19.1 CONFIG QUIET PATHS /usr/lib/llvm-19)
  if(LLVM_FOUND)
    set(SPJIT_HAVE_LLVM ON)
    target_include_directories(spjit_flags SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(spjit_flags INTERFACE SPJIT_HAVE_LLVM)
    message(STATUS "spjit: LLVM ${LLVM_PACKAGE_VERSION} (${LLVM_DIR})")
  elseif(SPJIT_LLVM STREQUAL "ON")
    message(FATAL_ERROR "SPJIT_LLVM=ON, but LLVM 19 was not found: install llvm-19-dev or set "
                        "LLVM_DIR")
  else()
    message(STATUS "spjit: LLVM 19 not found; the generic host target is left out")
  endif()
endif()
