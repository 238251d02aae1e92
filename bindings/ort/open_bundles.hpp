#pragma once

/// @file
/// Files with kernels that layers of ONNX Runtime share.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/fork_safe_mutex.hpp"
#include "spjit.h"

namespace spjit::ort {

using SharedBundle = std::shared_ptr<const spjit_bundle>;

/// Throws Error with the last message of the C interface.
[[noreturn]] void throw_last_error();

/// Whether the entry of a bundle (spjit_bundle_entry_info()) computes `problem`, JSON as its member
/// "problem": all is the same, but for sizes that a run says. Throws Error for text that is no
/// JSON.
[[nodiscard]] bool computes(std::string_view entry_json, std::string_view problem);

/// Bundles by path, each open once as long as somebody has it; a file that has replaced another is
/// opened anew, and so is each in a child of fork(), whose parent may be opening one. Thread-safe.
class OpenBundles {
 public:
  /// `public_key`: of all of them; empty: signed or not.
  explicit OpenBundles(std::string public_key) : public_key_(std::move(public_key)) {}

  /// Throws Error with what spjit says.
  [[nodiscard]] SharedBundle open(const std::string& path);

 private:
  struct Opened {
    std::optional<FileIdentity> identity;
    std::weak_ptr<const spjit_bundle> bundle;
  };

  struct Files {
    std::mutex mutex;
    std::map<std::string, Opened> opened;
  };

  std::string public_key_;
  PerProcess<Files> files_{[] { return std::make_unique<Files>(); }};
};

}  // namespace spjit::ort
