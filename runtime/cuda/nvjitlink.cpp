#include "runtime/cuda/nvjitlink.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dynamic_library.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// As NVIDIA documents them: https://docs.nvidia.com/cuda/nvjitlink/
using Result = int;
constexpr Result k_success = 0;
constexpr int k_input_cubin = 1;
constexpr int k_input_ptx = 2;
using Handle = struct OpaqueLink*;

// Versions looked for among exported names: those there are, and some to come.
constexpr int k_first_major = 12;
constexpr int k_last_major = 15;
constexpr int k_last_minor = 9;

// The highest virtual device of PTX that asks whether an arch is known: every version takes it.
constexpr int k_probe_arch = 75;

std::string versioned(const std::string& function, CudaVersion version) {
  return fmt::format("__{}_{}_{}", function, version.major, version.minor);
}

// A library exports its functions under the suffix of every version it is compatible with, its own
// the highest; nvJitLinkVersion came only later.
CudaVersion version_of(const DynamicLibrary& library) {
  for (int major = k_last_major; major >= k_first_major; --major) {
    for (int minor = k_last_minor; minor >= 0; --minor) {
      const CudaVersion version{major, minor};
      if (library.find<void()>(versioned("nvJitLinkCreate", version)) != nullptr) return version;
    }
  }
  throw NotSupported(fmt::format(
      "{} exports no nvJitLinkCreate of CUDA {}.0 to {}.{}: it is another library, or too new for "
      "this build",
      library.path().string(), k_first_major, k_last_major, k_last_minor));
}

class Functions {
 public:
  Functions(const DynamicLibrary& library, CudaVersion version)
      : create(get<Result(Handle*, std::uint32_t, const char**)>(library, version, "Create")),
        destroy(get<Result(Handle*)>(library, version, "Destroy")),
        add(get<Result(Handle, int, const void*, std::size_t, const char*)>(library, version,
                                                                            "AddData")),
        complete(get<Result(Handle)>(library, version, "Complete")),
        cubin_size(get<Size>(library, version, "GetLinkedCubinSize")),
        cubin(get<Bytes>(library, version, "GetLinkedCubin")),
        error_log_size(get<Size>(library, version, "GetErrorLogSize")),
        error_log(get<Text>(library, version, "GetErrorLog")),
        info_log_size(get<Size>(library, version, "GetInfoLogSize")),
        info_log(get<Text>(library, version, "GetInfoLog")) {}

  using Size = Result(Handle, std::size_t*);
  using Text = Result(Handle, char*);

  Result (*create)(Handle*, std::uint32_t, const char**);
  Result (*destroy)(Handle*);
  Result (*add)(Handle, int, const void*, std::size_t, const char*);
  Result (*complete)(Handle);
  Size* cubin_size;
  Result (*cubin)(Handle, void*);
  Size* error_log_size;
  Text* error_log;
  Size* info_log_size;
  Text* info_log;

 private:
  using Bytes = Result(Handle, void*);

  template <typename Function>
  static Function* get(const DynamicLibrary& library, CudaVersion version,
                       const std::string& name) {
    const std::string plain = "nvJitLink" + name;
    auto* function = library.find<Function>(versioned(plain, version));
    return function != nullptr ? function : library.require<Function>(plain);
  }
};

class LinkHandle {
 public:
  LinkHandle(const Functions& functions, const std::vector<std::string>& options)
      : functions_(&functions) {
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    created_ =
        functions.create(&handle_, static_cast<std::uint32_t>(pointers.size()), pointers.data());
  }
  LinkHandle(const LinkHandle&) = delete;
  LinkHandle& operator=(const LinkHandle&) = delete;
  ~LinkHandle() {
    if (handle_ != nullptr) functions_->destroy(&handle_);
  }

  /// What creating it gave. Anything but success: only the destructor may follow.
  [[nodiscard]] Result created() const noexcept { return created_; }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

  [[nodiscard]] std::string log() const {
    std::string errors = text(functions_->error_log_size, functions_->error_log);
    const std::string infos = text(functions_->info_log_size, functions_->info_log);
    if (!errors.empty() && !infos.empty() && errors.back() != '\n') errors += '\n';
    return errors + infos;
  }

 private:
  [[nodiscard]] std::string text(Functions::Size* size, Functions::Text* read) const {
    std::size_t bytes = 0;
    if (size(handle_, &bytes) != k_success || bytes == 0) return {};
    std::string result(bytes + 1, '\0');  // versions differ in whether they count the final zero
    if (read(handle_, result.data()) != k_success) return {};
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

  const Functions* functions_;
  Handle handle_ = nullptr;
  Result created_ = k_success;
};

std::vector<std::string> command_line(const NvJitLinkOptions& options) {
  std::vector<std::string> result = {fmt::format("-arch=sm_{}", options.arch)};
  if (options.relocatable) result.emplace_back("-r");
  result.insert(result.end(), options.more.begin(), options.more.end());
  return result;
}

std::string refusal(const NvJitLink& nvjitlink, const NvJitLinkOptions& options, Result result) {
  return fmt::format(
      "nvJitLink {} ({}) does not take {}: error {}; choose another target, or install a CUDA "
      "version that has it and name its folder in SPJIT_CUDA_PATH",
      to_string(nvjitlink.version()), nvjitlink.path().string(),
      fmt::join(command_line(options), " "), result);
}

}  // namespace

struct NvJitLink::Library {
  // Resident: it registers exit handlers and keeps data per thread.
  explicit Library(const std::filesystem::path& file)
      : library(file, DynamicLibrary::Lifetime::resident),
        version(version_of(library)),
        functions(library, version) {}

  DynamicLibrary library;
  CudaVersion version;
  Functions functions;
};

NvJitLink::NvJitLink(const std::filesystem::path& file)
    : library_(std::make_shared<const Library>(file)) {}

const std::filesystem::path& NvJitLink::path() const noexcept { return library_->library.path(); }

CudaVersion NvJitLink::version() const noexcept { return library_->version; }

// Up to 12.4 any arch is taken until the first input comes.
bool NvJitLink::supports(int arch) const {
  const LinkHandle handle(library_->functions, {fmt::format("-arch=sm_{}", arch)});
  if (handle.created() != k_success) return false;
  const std::string ptx = fmt::format(
      ".version 6.5\n.target sm_{}\n.address_size 64\n.visible .entry probe() {{ ret; }}\n",
      std::min(arch, k_probe_arch));
  return library_->functions.add(handle.get(), k_input_ptx, ptx.c_str(), ptx.size() + 1, "probe") ==
             k_success &&
         library_->functions.complete(handle.get()) == k_success;
}

bool NvJitLink::makes_relocatable(int arch) const {
  return LinkHandle(library_->functions, {fmt::format("-arch=sm_{}", arch), "-r"}).created() ==
         k_success;
}

CompiledCode NvJitLink::link(std::span<const LinkInput> inputs,
                             const NvJitLinkOptions& options) const {
  const Functions& functions = library_->functions;
  const LinkHandle handle(functions, command_line(options));
  const auto failed = [&](std::string_view what, Result result) {
    return CompileFailed(fmt::format("nvJitLink {} {} for sm_{}: error {}; see the log",
                                     to_string(version()), what, options.arch, result),
                         handle.log());
  };
  if (handle.created() != k_success) throw NotSupported(refusal(*this, options, handle.created()));
  for (const LinkInput& input : inputs) {
    const std::string name(input.name);
    // PTX ends with a zero, which counts.
    std::string ptx;
    const bool is_ptx = input.kind == LinkInput::Kind::ptx;
    if (is_ptx) ptx = input.code;
    const Result result = functions.add(handle.get(), is_ptx ? k_input_ptx : k_input_cubin,
                                        is_ptx ? ptx.c_str() : input.code.data(),
                                        is_ptx ? ptx.size() + 1 : input.code.size(), name.c_str());
    if (result == k_success) continue;
    if (!supports(options.arch)) throw NotSupported(refusal(*this, options, result));
    throw failed(fmt::format("cannot take '{}'", name), result);
  }
  if (const Result result = functions.complete(handle.get()); result != k_success) {
    throw failed(fmt::format("cannot link {} inputs", inputs.size()), result);
  }
  std::size_t bytes = 0;
  if (const Result result = functions.cubin_size(handle.get(), &bytes); result != k_success) {
    throw failed("gives no cubin", result);
  }
  CompiledCode linked{std::string(bytes, '\0'), handle.log()};
  if (const Result result = functions.cubin(handle.get(), linked.code.data());
      result != k_success) {
    throw failed("gives no cubin", result);
  }
  return linked;
}

}  // namespace spjit
