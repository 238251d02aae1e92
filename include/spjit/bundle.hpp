#pragma once

/// @file
/// Kernels of a network, for several targets, in one file (docs/use/bundle.md).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"
#include "spjit/parallel_for.hpp"
#include "spjit/problem.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The hash by which a bundle knows weights: 32 hexadecimal digits of A's pattern and, unless a
/// kernel takes them at run time, its values. The order of entries in a row does not count. Throws
/// InvalidMatrix.
[[nodiscard]] SPJIT_EXPORT std::string weight_hash(const CsrMatrix& matrix,
                                                   bool pattern_only = false);

/// Whom and what a bundle's reader trusts.
struct BundleOptions {
  /// PEM text ("-----BEGIN PUBLIC KEY-----...") of an Ed25519 key, or the path of a file that has
  /// it. Then only a bundle that the key signed is opened, and any change is refused. Empty: a
  /// bundle may be signed or not; damage is found, malice is not. Needs OpenSSL's libcrypto.
  std::string public_key = {};
  /// Opens also a file that other users can write to. It is copied, not mapped.
  bool any_owner = false;
};

/// A kernel in a bundle.
struct BundleEntry {
  std::string layer;    ///< its name in the network; may be empty
  Target target;        ///< the instruction set or architecture of its code
  std::string card;     ///< what choices were made for, "zen4", "h200"; of a CPU not listed empty
  std::string weights;  ///< `weight_hash()`; of a convolution of groups as one of all channels
  std::string family;   ///< as KernelInfo::family
  std::string key;      ///< as KernelInfo::key
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  Extent n = {};
  std::int64_t bytes = 0;  ///< of its files, which other entries may share
  std::string problem;     ///< JSON: "problem" of a record (docs/design/cache-format.md)
};

/// How a kernel of a bundle is loaded.
struct BundleLoad {
  int threads = 1;                ///< of a run; 0: all CPUs that this process may use
  ParallelFor parallel_for = {};  ///< where runs have them; empty: in threads of the kernel's own
};

/// An open bundle. It is only read; processes that load its kernels share the pages of code and
/// weights. Kernels keep what they need of it. Copies share it; all members are thread-safe.
class SPJIT_EXPORT Bundle {
 public:
  /// Checks the index, where the files lie, and the signature if a key is given; files are checked
  /// when they are loaded. Throws
  /// - IoError of one line, which begins with the path: the file is not there, damaged, cut short,
  ///   not signed by the key, or other users can write to it
  /// - InvalidArgument for what is no key
  /// - NotSupported for a key where there is no libcrypto
  [[nodiscard]] static Bundle open(const std::filesystem::path& path,
                                   const BundleOptions& options = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<BundleEntry>& entries() const noexcept;
  /// Whether it has a signature. It was checked only if a key was given.
  [[nodiscard]] bool is_signed() const noexcept;

  /// The entry for a layer: for `target`, or else the best for this CPU (AVX-512 before AVX2 before
  /// generic). If there are several, one that was chosen for the target's card is taken, then one
  /// for this CPU's card, then one for `any`. A GPU's is the one with the highest architecture that
  /// runs there. None if the bundle does not have the layer. Throws NotSupported, with the targets
  /// that there are, if it has it for others only.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view layer,
                                                const std::optional<Target>& target = {}) const;
  /// The entry of a problem with these weights, whatever the layer is called. For a run-time n any
  /// typical n will do. Throws as Compiler::compile() for an invalid problem.
  [[nodiscard]] std::optional<std::size_t> find(const Problem& problem,
                                                const std::optional<Target>& target = {}) const;

  /// The kernel of an entry, its files verified; needs neither matrix nor cache nor compiler. One
  /// for a GPU is in none yet: Kernel::load(). Throws InvalidArgument for an entry that is not
  /// there and threads outside 0 .. 4096; IoError for a damaged file; NotSupported if this CPU
  /// lacks the instruction set; Error for a kernel of another version's format.
  [[nodiscard]] Kernel load(std::size_t entry, const BundleLoad& load = {}) const;

  /// The record of an entry's kernel, as Kernel::record() without "files" and "compile_ms". Throws
  /// InvalidArgument.
  [[nodiscard]] std::string record(std::size_t entry) const;

  /// Reads all files and checks them. Throws IoError that names the first that is damaged.
  void verify() const;

 private:
  friend class BundleWriter;
  class Impl;
  explicit Bundle(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

/// Makes a bundle, which gets its name when it is whole. The same kernels in the same order, and
/// the same key, give the same bytes. Move-only; not thread-safe.
class SPJIT_EXPORT BundleWriter {
 public:
  /// `private_key`: PEM text or the path of a file, as BundleOptions::public_key; the bundle is
  /// signed with it. Throws IoError; InvalidArgument for what is no key; NotSupported for a key
  /// where there is no libcrypto.
  explicit BundleWriter(const std::filesystem::path& path, const std::string& private_key = {});
  BundleWriter(BundleWriter&& other) noexcept;
  BundleWriter& operator=(BundleWriter&& other) noexcept;
  /// A bundle that was not finished does not appear.
  ~BundleWriter();

  /// A layer may have several kernels that compute the same. A layer without a name may have any.
  /// Throws IoError, and InvalidArgument for
  /// - a layer that already has this kernel
  /// - a layer that already has a kernel of other weights, epilogue or convolution
  /// - a name over 1000 bytes or not UTF-8
  /// - a kernel that was linked
  void add(const std::string& layer, const Kernel& kernel);
  /// All kernels of a bundle, in its order, but those that are there already. Throws the same.
  void add(const Bundle& bundle);
  /// One entry of a bundle, unless its kernel is there already. Throws the same, and
  /// InvalidArgument for an entry that is not in the bundle.
  void add(const Bundle& bundle, std::size_t entry);

  [[nodiscard]] std::size_t kernels() const noexcept;  ///< that were added

  /// Makes the file appear; returns its bytes. Nothing may be called after. Throws IoError.
  std::int64_t finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spjit
