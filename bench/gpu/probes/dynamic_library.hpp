#pragma once

// Libraries of the CUDA toolkit, opened at run time; LD_LIBRARY_PATH says where they are.

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace probe {

/// Null if there is none.
inline void* find_library(const char* stem) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda-13.0/lib64/",
                             "/usr/lib/x86_64-linux-gnu/"}) {
    for (const char* ending : {".so.13", ".so.12", ".so"}) {
      const std::string path = std::string(folder) + stem + ending;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    }
  }
  return nullptr;
}

/// Whether the library has it.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) return false;
  std::memcpy(&function, &symbol, sizeof(symbol));
  return true;
}

}  // namespace probe
