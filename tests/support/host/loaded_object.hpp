#pragma once

/// @file
/// An ELF object in memory, relocated and ready to be called.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/page_mapping.hpp"

namespace spjit {

/// Symbols outside itself that an object may use: name -> address. Nothing else is visible to it.
using SymbolTable = std::map<std::string, void*, std::less<>>;

/// Owns the allocated sections of an x86-64 ET_REL object: code pages read + execute, everything
/// else read only. One reservation, so sections lie within 2 GiB of each other; each section is
/// aligned to 64 bytes or its own larger alignment. Handles the relocations that compilers emit for
/// self-contained kernels: R_X86_64_64, 32, 32S, PC32, PC64, PLT32, GOTPCREL, GOTPCRELX,
/// REX_GOTPCRELX. Move-only; moving keeps the addresses. `const` members are thread-safe.
class LoadedObject {
 public:
  LoadedObject() = default;

  /// `object` is not needed afterwards. Throws Error for a malformed object or a value that does
  /// not fit its relocation, NotSupported for writable sections with content and for relocations
  /// not listed above, InvalidArgument that names a symbol missing from `externals`.
  explicit LoadedObject(std::span<const std::byte> object, const SymbolTable& externals = {});

  /// The address of a defined symbol (global or local; the global one if both exist).
  /// Throws InvalidArgument that names it if there is none.
  [[nodiscard]] void* symbol(std::string_view name) const;

  /// As `symbol()`, but null if there is none.
  [[nodiscard]] void* find_symbol(std::string_view name) const noexcept;

  /// `symbol()` as a function, e.g. `function<void(const float*, float*)>("spjit_kernel")`.
  template <class Signature>
  [[nodiscard]] Signature* function(std::string_view name) const {
    return reinterpret_cast<Signature*>(symbol(name));
  }

  /// Memory held, in bytes of whole pages.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return pages_.bytes().size(); }

 private:
  PageMapping pages_;
  std::map<std::string, void*, std::less<>> symbols_;
};

}  // namespace spjit
