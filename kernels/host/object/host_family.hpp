#pragma once

/// @file
/// What families of host kernels have in common: an object file, a program record, threads.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/file_descriptor.hpp"
#include "base/row_ranges.hpp"
#include "base/thread_pool.hpp"
#include "kernels/host/layer/image_stage.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/program_words.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// A host kernel in memory.
struct HostObject {
  HostImage image;
  std::shared_ptr<const void> owner = nullptr;  ///< of the image; null: it outlives all kernels
  std::shared_ptr<ThreadPool> pool = nullptr;   ///< null: runs in the caller's thread
  bool executable = false;                      ///< the text runs where it is
  bool any_isa = false;                         ///< as HostDevice::any_isa
};

/// Families whose artifact is one object file.
class HostFamily : public KernelFamily {
 public:
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device& device, const Cancellation& cancel) const final;

  /// The kernel of an image of this family. Throws as load().
  [[nodiscard]] virtual LoadedKernel open(const HostObject& object,
                                          const Cancellation& cancel) const = 0;

  /// Throws InvalidArgument for a GPU.
  [[nodiscard]] const HostDevice& host_of(const Device& device) const;
  /// An image on a host. Throws as host_of().
  [[nodiscard]] HostObject object_on(const Device& device, const HostImage& image,
                                     std::shared_ptr<const void> owner,
                                     bool executable = false) const;

 protected:
  /// What a header says of a kernel of this family. Throws Error for one of another family and for
  /// a run-time n that this one does not know; NotSupported if this CPU lacks the instruction set,
  /// which the object is to have.
  [[nodiscard]] KernelInfo info_of(const HostProgramHeader& header, const HostObject& object) const;

  /// The kernel of an image that is A, by an Executable made of the object, A and `cancel`.
  template <class Executable>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): one that holds its image moves it
  [[nodiscard]] LoadedKernel open_csr(const HostObject& object, CsrImage read,
                                      const Cancellation& cancel) const {
    KernelInfo info = info_of(read.header, object);
    info.panel_columns = read.panel_columns;
    return {std::move(info), std::make_shared<const Executable>(object, std::move(read), cancel)};
  }
};

/// Calls `run` with row-major arguments: once, or for each panel where B and C are panel-major.
template <class Run>
void for_each_panel(const Product& product, const CsrImage& image, const Run& run) {
  if (product.layout == Layout::row_major) {
    run(product);
    return;
  }
  const std::int64_t width = image.panel_columns;
  const PanelLayout b{image.header.cols, product.n, width};
  const PanelLayout c{image.header.rows, product.n, width};
  for (std::int64_t panel = 0; panel < b.panels(); ++panel) {
    run({.b = product.b + panel * b.stride(),
         .ldb = width,
         .c = product.c + panel * c.stride(),
         .ldc = width,
         .n = width,
         .serial = product.serial,
         .values = product.values,
         .workspace = product.workspace});
  }
}

/// What threads share.
struct SharedWork {
  const CsrImage& image;
  std::int64_t panel_columns;     ///< columns are shared in multiples
  std::int64_t workspace_floats;  ///< that each thread needs
};

/// Into how many parts work is worth dividing. `least` is a thread's: less takes no longer than
/// waking it.
[[nodiscard]] inline std::int64_t worthwhile_parts(double work, double least, int threads) {
  return static_cast<std::int64_t>(std::clamp(work / least, 1.0, static_cast<double>(threads)));
}

/// Groups of columns of which B and C stay in L2 while they are transposed, multiplied and
/// finished. MiniLM at 80 %, in sequence, a loop over A: 128 take 1.03 times as long, 256 and
/// 32 1.05 times.
struct ColumnGroups {
  std::int64_t columns = 64;   ///< in whole panels
  std::int64_t panel = 16;     ///< groups begin with one
  bool whole = false;          ///< and have at least one: the last panel reaches back
  std::int64_t of_batch = 64;  ///< of all of a batch that are computed together, at most
};

/// Plans of the images of a convolution, by their sizes: the last few that were asked for.
class ImagePlans {
 public:
  [[nodiscard]] std::shared_ptr<const ImagePlan> plan_for(const Convolution& convolution,
                                                          const ImageColumns& columns) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const ImagePlan>> plans_;  ///< the last used first
};

/// What holds of every executable on the host.
class HostExecutable : public Executable {
 public:
  [[nodiscard]] const HostImage* image() const noexcept final { return &object_.image; }

  /// The product, and around it what the layer has: other layouts, an epilogue, a batch.
  void run(const Arguments& arguments) const final;

  [[nodiscard]] std::int64_t workspace_bytes(const Arguments& arguments) const final;

  /// The product alone, of row-major B and C, without what the layer has around it.
  void multiply_rows(const Product& product) const { multiply(product); }

 protected:
  /// `panel_columns`: of panels of B and C that multiply() takes; 0: none.
  HostExecutable(HostObject object, HostProgramHeader header, std::int64_t panel_columns)
      : object_(std::move(object)), layer_(std::move(header)), panel_columns_(panel_columns) {}

  /// Computes C = A * B with the pool's threads.
  virtual void multiply(const Product& product) const = 0;

  /// What multiply() borrows for such a product, wherever B and C are. `product.serial` counts.
  [[nodiscard]] virtual WorkspaceNeed workspace_need(const Product& product) const {
    static_cast<void>(product);
    return {};
  }

  /// The same of run_shared() with such parts.
  template <class Part>
  [[nodiscard]] static WorkspaceNeed shared_need(const std::vector<Part>& parts,
                                                 const Product& product, std::int64_t floats) {
    return {product.serial ? 1 : std::ssize(parts), floats};
  }

  /// Whether multiply() takes a tokens-major B: the family copies B anyway.
  [[nodiscard]] virtual bool takes_tokens() const noexcept { return false; }

  /// Whether multiply() takes a B in runs of columns: the family copies B anyway.
  [[nodiscard]] virtual bool takes_runs() const noexcept { return false; }

  /// What computes so few columns faster, with prepared values of its own in `arguments`; null:
  /// nothing does, and they are as they were.
  [[nodiscard]] virtual const HostExecutable* suited_to_few(Arguments& arguments) const {
    static_cast<void>(arguments);
    return nullptr;
  }

  /// How columns are divided where there is more to do than to multiply.
  /// `in_place`: sums are where C is.
  [[nodiscard]] virtual ColumnGroups column_groups(bool in_place) const noexcept {
    return {in_place ? std::int64_t{256} : std::int64_t{64}};
  }

  [[nodiscard]] int threads() const noexcept {
    return object_.pool == nullptr ? 1 : object_.pool->threads();
  }
  [[nodiscard]] bool is_executable() const noexcept { return object_.executable; }
  [[nodiscard]] ThreadPool* pool() const noexcept { return object_.pool.get(); }

  /// Calls `task` with 0 to `count` - 1, in the pool's threads if there is one and not `serial`.
  template <class Task>
  void run_tasks(std::int64_t count, bool serial, const Task& task) const {
    if (pool() == nullptr || serial || count <= 1) {
      for (int index = 0; index < count; ++index) task(index);
      return;
    }
    // A task a thread at most, of which a pool has k_most_threads at most.
    pool()->run(static_cast<int>(count), [&](int index, int) { task(index); });
  }

  /// The same with each of the parts.
  template <class Part>
  void run_parts(const std::vector<RowRange>& parts, bool serial, const Part& part) const {
    run_tasks(std::ssize(parts), serial,
              [&](int index) { part(parts[static_cast<std::size_t>(index)]); });
  }

  [[nodiscard]] const WorkspacePool& workspaces() const noexcept { return *workspaces_; }

  /// Computes C with parts that have some rows each. `run(part, product, workspace)` computes the
  /// part's rows of row-major C. Threads share the rows, so that each brings its part of A from
  /// memory once. Of very few rows each would pack all of B for a few: then they share the columns,
  /// in panels.
  template <class Part, class Run>
  void run_shared(const std::vector<Part>& parts, const Product& product, const SharedWork& work,
                  const Run& run) const {
    for_each_panel(product, work.image,
                   [&](const Product& panel) { run_row_major(parts, panel, work, run); });
  }

 private:
  /// What is computed at once: columns of B and C of one of a batch, or all of some.
  struct ColumnRange {
    std::int64_t begin;
    std::int64_t end;
  };
  struct Group;
  struct Layer;
  struct Borrowed;

  [[nodiscard]] bool is_product(const Arguments& arguments) const noexcept;
  [[nodiscard]] bool divides(std::int64_t groups) const noexcept;
  [[nodiscard]] Layer layer_of(const Arguments& arguments) const;
  void add_groups(Layer& layer) const;
  void add_image(Layer& layer) const;
  [[nodiscard]] Borrowed borrowed_by(const Layer& layer) const;
  [[nodiscard]] Product product_of(const Layer& layer, std::int64_t columns) const;
  void run_in(std::byte* memory, Layer layer, const Borrowed& borrowed) const;
  void run_layer(const Layer& layer) const;
  void run_groups(const Layer& layer) const;
  [[nodiscard]] Arguments joined(const Arguments& arguments) const;
  [[nodiscard]] bool sums_in_place(const Arguments& arguments) const;
  void add_items(Layer& layer) const;
  [[nodiscard]] Group group_of(const Layer& layer, std::int64_t index) const;
  void run_product(const Layer& layer, const Group& group) const;
  void run_group(const Layer& layer, const Group& group, float* workspace) const;
  void run_image_group(const Layer& layer, const Group& group, float* workspace) const;
  void finish_items(const Layer& layer, const Group& group, const Product& sums,
                    const RowRange& rows) const;
  void finish_rows_of_pixels(const Arguments& one, const ImagePlan& plan, const Product& sums,
                             ColumnRange columns, const RowRange& rows) const;
  void finish_columns(const Arguments& one, const Product& sums, ColumnRange columns,
                      const RowRange& rows) const;

  /// Calls `task` with the rows that each thread has.
  template <class Task>
  void share_rows(std::int64_t rows, bool serial, const Task& task) const {
    const std::int64_t most = serial ? 1 : threads();
    const std::int64_t parts = std::min<std::int64_t>(most, ceil_div(rows, 16));
    run_tasks(parts, serial, [&](std::int64_t part) {
      task(RowRange{rows * part / parts, rows * (part + 1) / parts});
    });
  }

  template <class Part, class Run>
  void run_row_major(const std::vector<Part>& parts, const Product& product, const SharedWork& work,
                     const Run& run) const {
    const std::int64_t panels = ceil_div(product.n, work.panel_columns);
    const std::int64_t count = std::ssize(parts);
    constexpr std::int64_t k_few_rows = 32;  // a thread
    const bool by_rows =
        count <= 1 || panels < count || work.image.header.rows >= k_few_rows * count;
    run_tasks(count, product.serial, [&](std::int64_t task) {
      const WorkspacePool::Loan workspace(
          workspaces(), {work.workspace_floats, work.workspace_floats}, product.workspace);
      if (by_rows) {
        run(parts[static_cast<std::size_t>(task)], product, workspace.data());
        return;
      }
      const std::int64_t begin = task * panels / count * work.panel_columns;
      const std::int64_t end =
          std::min(product.n, (task + 1) * panels / count * work.panel_columns);
      const Product some = product.columns(begin, end - begin);
      for (const Part& part : parts) run(part, some, workspace.data());
    });
  }

  HostObject object_;
  HostProgramHeader layer_;
  std::int64_t panel_columns_;
  std::shared_ptr<const WorkspacePool> workspaces_ = WorkspacePool::shared();
  ImagePlans images_;
};

/// The file of an image. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] Artifact::File object_file(const HostImage& image, const Cancellation& cancel = {});

/// A host kernel as it was compiled.
class BuiltImage final : public BuiltCode, public std::enable_shared_from_this<BuiltImage> {
 public:
  BuiltImage(const HostFamily& family, HostArtifact artifact)
      : family_(family), artifact_(std::move(artifact)) {}

  [[nodiscard]] std::vector<Artifact::File> files(const Cancellation& cancel) const override;
  [[nodiscard]] LoadedKernel load(const nlohmann::json& record, const Device& device,
                                  const Cancellation& cancel) const override;

 private:
  const HostFamily& family_;
  HostArtifact artifact_;
};

/// A host kernel in a file of the cache, which processes share: its text runs in the file's pages,
/// unless they must not be executed or it begins within one; then it is copied.
class MappedImage final : public BuiltCode, public std::enable_shared_from_this<MappedImage> {
 public:
  /// Precondition: `file.is_mapped()`. Throws Error if it holds no kernel.
  MappedImage(const HostFamily& family, FileBytes file);

  [[nodiscard]] std::vector<Artifact::File> files(const Cancellation& cancel) const override;
  [[nodiscard]] LoadedKernel load(const nlohmann::json& record, const Device& device,
                                  const Cancellation& cancel) const override;

 private:
  const HostFamily& family_;
  FileBytes file_;
  HostImage image_;
  bool executable_;
};

/// Why a family that copies B takes no such A: few of B's rows are read. Empty: many are.
[[nodiscard]] std::string unread_refusal(const CsrMatrix& a);

/// The kernel of a family that reads A: A itself.
[[nodiscard]] BuiltKernel build_csr(const BuildRequest& request, const HostFamily& family);

/// The members of a record that every host family writes: sizes of code and weights.
[[nodiscard]] nlohmann::json image_record(const HostImage& image);

}  // namespace spjit
