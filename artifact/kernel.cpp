#include "spjit/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "artifact/aot_header.hpp"
#include "artifact/argument_checks.hpp"
#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "artifact/kernel_impl.hpp"
#include "artifact/matrix_values.hpp"
#include "base/arithmetic.hpp"
#include "base/gzip.hpp"
#include "base/identifiers.hpp"
#include "base/json_text.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/host/object/host_family.hpp"
#include "kernels/host/object/host_image.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/kernel_record.hpp"
#include "matrix/limits.hpp"
#include "plan/numerics.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void check_name(const std::string& name) {
  if (is_function_name(name)) return;
  throw InvalidArgument(
      fmt::format("\"{}\" cannot name a function; expected letters, digits and '_', and no keyword "
                  "or reserved or standard name of C++",
                  name));
}

/// The image of a host kernel that can be linked.
const HostImage& image_of(const Kernel::Impl& kernel) {
  const HostImage* image = kernel.executable == nullptr ? nullptr : kernel.executable->image();
  if (image != nullptr) return *image;
  throw NotSupported(
      fmt::format("a kernel for {} is no object that can be linked", kernel.info.target.name()));
}

const Executable& loaded(const Kernel::Impl& kernel) {
  if (kernel.lacks) kernel.backend->require(kernel.info.target);
  if (kernel.executable != nullptr) return *kernel.executable;
  throw InvalidArgument(fmt::format(
      "this kernel for {} is in no GPU; load it first: kernel.load(0)", kernel.info.target.name()));
}

void require_runtime_values(const KernelInfo& info) {
  if (info.runtime_values) return;
  throw InvalidArgument(
      "this kernel has A's values; compile it with Problem::runtime_values to bring others");
}

void require_exact(std::span<const float> values, DataType type) {
  const std::optional<std::int64_t> found = first_inexact(type, values);
  if (!found) return;
  throw InvalidArgument(
      fmt::format("value {} is {}, which {} does not have; round A's values to the type first",
                  *found, values[to_size(*found)], to_string(type)));
}

/// Panels are made and read in fp32 alone.
void require_floats(const KernelInfo& info) {
  if (info.numerics.b == DataType::f32 && info.numerics.c == DataType::f32) return;
  throw InvalidArgument(
      fmt::format("B is of {} and C of {}; expected f32: panels of other types are the caller's",
                  to_string(info.numerics.b), to_string(info.numerics.c)));
}

std::string text_of(std::span<const std::byte> gz) {
  constexpr std::int64_t k_most_source_bytes = std::int64_t{1} << 34;
  return gz.empty() ? std::string() : gunzip(gz, k_most_source_bytes);
}

/// The caller's bytes may go before the kernel does.
Artifact::File owned_copy(const Artifact::File& file) {
  auto owner = std::make_shared<const std::vector<std::byte>>(file.bytes.begin(), file.bytes.end());
  return {file.name, *owner, owner};
}

/// The record that the CLI writes wraps the kernel's.
nlohmann::json parse_record(const std::string& record) {
  nlohmann::json json;
  try {
    json = parse_json(record);
  } catch (const Error& error) {
    throw Error(fmt::format("the record of a kernel is no JSON: {}", error.what()));
  }
  if (json.is_object() && json.contains("record")) json = nlohmann::json(json.at("record"));
  return json;
}

}  // namespace

Kernel::Impl::Impl(const KernelFamily& family_in, LoadedKernel loaded,
                   std::shared_ptr<const BuiltCode> code_in, nlohmann::json record_in)
    : info(std::move(loaded.info)),
      family(&family_in),
      backend(&backend_of(info.target)),
      lacks(backend->lacks(info.target)),
      executable(std::move(loaded.executable)),
      code(std::move(code_in)),
      record(std::move(record_in)) {
  apply_record(record, info);
}

std::shared_ptr<const Kernel::Impl> Kernel::Impl::with(
    std::shared_ptr<const Executable> elsewhere) const {
  auto other =
      std::make_shared<Impl>(*family, LoadedKernel{info, std::move(elsewhere)}, code, record);
  other->info = info;
  return other;
}

const Artifact& Kernel::Impl::artifact() const {
  std::call_once(made_, [this] {
    Artifact made;
    if (code != nullptr) made.files = code->files({});
    nlohmann::json whole = record;
    whole["files"] = files_json(made.files);
    // A path of the policy may be no UTF-8.
    made.record = whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    artifact_ = std::move(made);
  });
  return artifact_;
}

const KernelInfo& Kernel::info() const noexcept { return impl_->info; }

const Artifact& Kernel::artifact() const { return impl_->artifact(); }

void Kernel::run(const Arguments& arguments) const {
  const Executable& executable = loaded(*impl_);
  check_values(info(), executable.id(), arguments.values);
  executable.run(checked_arguments(info(), arguments));
}

void Kernel::run(const float* b, float* c) const { run({.b = b, .c = c}); }

void Kernel::run(const float* b, std::int64_t ldb, float* c, std::int64_t ldc) const {
  // 0 is no default here.
  check_leading_dimension("ldb", ldb, {cols(), n()}, DataType::f32);
  check_leading_dimension("ldc", ldc, {rows(), n()}, DataType::f32);
  run({.b = {b, {.ld = ldb, .layout = Layout::row_major}},
       .c = {c, {.ld = ldc, .layout = Layout::row_major}}});
}

void Kernel::run_panels(const float* b_panels, float* c_panels) const {
  run({.b = {b_panels, {.layout = Layout::panel_major}},
       .c = {c_panels, {.layout = Layout::panel_major}}});
}

std::int64_t Kernel::workspace_bytes(const Arguments& arguments) const {
  return loaded(*impl_).workspace_bytes(checked_sizes(info(), arguments));
}

PreparedValues Kernel::prepare_values(std::span<const float> values) const {
  require_runtime_values(info());
  if (std::ssize(values) != info().nnz) {
    throw InvalidArgument(
        fmt::format("{} values; expected {}, one of each entry of A", values.size(), info().nnz));
  }
  require_exact(values, info().numerics.a);
  return PreparedValues(loaded(*impl_).prepare_values(values));
}

PreparedValues Kernel::prepare_values(const CsrMatrix& a) const {
  require_runtime_values(info());
  return prepare_values(values_of_pattern(a, info(), impl_->record));
}

void Kernel::launch(const Arguments& arguments) const {
  const Executable& executable = loaded(*impl_);
  check_values(info(), executable.id(), arguments.values);
  executable.launch(checked_arguments(info(), arguments));
}

void Kernel::launch(const float* b, float* c, void* stream) const {
  launch({.b = b, .c = c, .stream = stream});
}

Kernel Kernel::load(int device) const {
  const std::optional<Device> place = impl_->backend->device(device);
  if (!place) return *this;
  return Kernel(impl_->with(impl_->code->load(impl_->record, *place, {}).executable));
}

int Kernel::device() const noexcept {
  return impl_->executable == nullptr ? -1 : impl_->executable->device();
}

std::int64_t Kernel::driver_active_blocks() const { return loaded(*impl_).active_blocks(); }

std::int64_t Kernel::panel_elements(std::int64_t rows) const {
  return panels_of(info(), rows, n()).size();
}

std::int64_t Kernel::panel_stride(std::int64_t rows) const {
  return panels_of(info(), rows, n()).stride();
}

void Kernel::to_panels(const float* dense, std::int64_t ld, std::int64_t rows,
                       float* panels) const {
  require_floats(info());
  const PanelLayout layout = panels_of(info(), rows, n());
  check_leading_dimension("ld", ld, {rows, n()}, DataType::f32);
  check_pointer("dense", dense, rows, n());
  check_pointer("panels", panels, rows, n());
  const std::array all = {RowRange{0, rows}};
  pack_panels(layout, {0, layout.panels()}, {dense, ld}, all, panels);
}

void Kernel::from_panels(const float* panels, std::int64_t rows, float* dense,
                         std::int64_t ld) const {
  require_floats(info());
  const PanelLayout layout = panels_of(info(), rows, n());
  check_leading_dimension("ld", ld, {rows, n()}, DataType::f32);
  check_pointer("panels", panels, rows, n());
  check_pointer("dense", dense, rows, n());
  for (std::int64_t panel = 0; panel < layout.panels(); ++panel) {
    const std::int64_t first = panel * layout.width;
    const auto columns = static_cast<std::size_t>(std::min(layout.width, layout.n - first));
    const float* from = panels + panel * layout.stride();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(dense + row * ld + first, from + row * layout.width, columns * sizeof(float));
    }
  }
}

std::span<const std::byte> Kernel::image() const { return artifact().file(k_cubin_file); }

std::string Kernel::cuda_source() const { return text_of(artifact().file(k_cuda_file)); }

std::string Kernel::ptx() const { return text_of(artifact().file(k_ptx_file)); }

Kernel Kernel::from_artifact(Artifact artifact, int threads, ParallelFor parallel_for) {
  for (Artifact::File& file : artifact.files) {
    if (file.owner == nullptr) file = owned_copy(file);
  }
  nlohmann::json record = parse_record(artifact.record);
  const KernelFamily& family = family_of(record);
  require_own_files(family, record, artifact.files);
  auto code = std::make_shared<const BuiltFiles>(family, std::move(artifact.files));
  const HostDevice device{thread_pool_of({threads, std::move(parallel_for)})};
  return Kernel(load_kernel(family, std::move(code), std::move(record), device, {}));
}

std::vector<std::byte> Kernel::object(const std::string& name) const {
  check_name(name);
  return write_object(image_of(*impl_), name);
}

std::string Kernel::aot_header(const std::string& name) const {
  check_name(name);
  return aot_header_of(info(), image_of(*impl_), name);
}

Kernel Kernel::link(const LinkedObject& object, int threads) {
  const auto part = [](const void* data, std::size_t bytes) {
    if (data == nullptr && bytes > 0) {
      throw InvalidArgument(
          fmt::format("a part of a linked object is null; expected {} bytes", bytes));
    }
    return std::span(static_cast<const std::byte*>(data), bytes);
  };
  HostObject linked;
  linked.image = {part(object.text, object.text_bytes), part(object.weights, object.weights_bytes),
                  part(object.program, object.program_bytes)};
  linked.pool = thread_pool_of({threads, {}});
  linked.executable = true;
  WordReader reader(linked.image.program);
  const auto* family = dynamic_cast<const HostFamily*>(&find_family(read_header(reader).family));
  if (family == nullptr) throw Error("the linked object is of no family of the host");
  return Kernel(std::make_shared<const Impl>(*family, family->open(linked, {}), nullptr,
                                             nlohmann::json::object()));
}

}  // namespace spjit
