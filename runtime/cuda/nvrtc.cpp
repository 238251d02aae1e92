#include "runtime/cuda/nvrtc.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/dynamic_library.hpp"
#include "base/safe_path.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// As NVIDIA documents them: https://docs.nvidia.com/cuda/nvrtc/
using NvrtcResult = int;
constexpr NvrtcResult k_nvrtc_success = 0;
constexpr NvrtcResult k_cancelled = 16;
using Program = struct OpaqueProgram*;
using Callback = int(void* payload, void* reserved);

constexpr CudaVersion k_oldest = {11, 8};
constexpr CudaVersion k_knows_cache = {12, 9};

struct NvrtcFunctions {
  explicit NvrtcFunctions(const DynamicLibrary& library)
      : version(library.require<NvrtcResult(int*, int*)>("nvrtcVersion")),
        num_archs(library.require<NvrtcResult(int*)>("nvrtcGetNumSupportedArchs")),
        archs(library.require<NvrtcResult(int*)>("nvrtcGetSupportedArchs")),
        error_string(library.require<const char*(NvrtcResult)>("nvrtcGetErrorString")),
        create(
            library.require<NvrtcResult(Program*, const char*, const char*, int, const char* const*,
                                        const char* const*)>("nvrtcCreateProgram")),
        destroy(library.require<NvrtcResult(Program*)>("nvrtcDestroyProgram")),
        compile(
            library.require<NvrtcResult(Program, int, const char* const*)>("nvrtcCompileProgram")),
        log_size(library.require<Size>("nvrtcGetProgramLogSize")),
        log(library.require<Text>("nvrtcGetProgramLog")),
        ptx_size(library.require<Size>("nvrtcGetPTXSize")),
        ptx(library.require<Text>("nvrtcGetPTX")),
        cubin_size(library.require<Size>("nvrtcGetCUBINSize")),
        cubin(library.require<Text>("nvrtcGetCUBIN")),
        set_callback(library.find<NvrtcResult(Program, Callback*, void*)>("nvrtcSetFlowCallback")) {
  }

  using Size = NvrtcResult(Program, std::size_t*);
  using Text = NvrtcResult(Program, char*);

  NvrtcResult (*version)(int*, int*);
  NvrtcResult (*num_archs)(int*);
  NvrtcResult (*archs)(int*);
  const char* (*error_string)(NvrtcResult);
  NvrtcResult (*create)(Program*, const char*, const char*, int, const char* const*,
                        const char* const*);
  NvrtcResult (*destroy)(Program*);
  NvrtcResult (*compile)(Program, int, const char* const*);
  Size* log_size;
  Text* log;
  Size* ptx_size;
  Text* ptx;
  Size* cubin_size;
  Text* cubin;
  NvrtcResult (*set_callback)(Program, Callback*, void*);  // null in older ones
};

void require_safe(const std::filesystem::path& builtins, const std::filesystem::path& nvrtc) {
  const std::string problem = find_safely(builtins).problem;
  if (problem.empty()) return;
  throw NotSupported(
      fmt::format("{}: {}; make it yours (chown, chmod go-w)", nvrtc.string(), problem));
}

// NVRTC opens its built-in headers' library by a bare name, which the loader does not find in a
// folder it does not search; one that is already loaded is found by that name wherever it lies.
std::vector<DynamicLibrary> open_builtins(const std::filesystem::path& nvrtc, LibraryTrust trust) {
  std::vector<DynamicLibrary> opened;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(nvrtc.parent_path(), error)) {
    if (!entry.path().filename().string().starts_with("libnvrtc-builtins.so")) continue;
    if (trust == LibraryTrust::searched) require_safe(entry.path(), nvrtc);
    auto library = DynamicLibrary::try_open(entry.path(), DynamicLibrary::Lifetime::resident);
    if (library) opened.push_back(std::move(*library));
  }
  return opened;
}

int flow_callback(void* payload, void* /*reserved*/) {
  return static_cast<const Cancellation*>(payload)->reached() ? 1 : 0;
}

class ProgramHandle {
 public:
  ProgramHandle(const NvrtcFunctions& functions, const std::string& source, const std::string& name)
      : functions_(&functions) {
    const NvrtcResult result =
        functions.create(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (result != k_nvrtc_success) {
      throw CompileFailed(fmt::format("NVRTC takes no program '{}' of {} bytes: {}", name,
                                      source.size(), functions.error_string(result)));
    }
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;
  ~ProgramHandle() { functions_->destroy(&program_); }

  [[nodiscard]] Program get() const noexcept { return program_; }

  /// What a pair of NVRTC's functions gives, empty if it gives nothing.
  [[nodiscard]] std::string text(NvrtcFunctions::Size* size, NvrtcFunctions::Text* read) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != k_nvrtc_success) return {};
    std::string result(bytes, '\0');
    if (bytes > 0 && read(program_, result.data()) != k_nvrtc_success) return {};
    return result;
  }

  /// A text that NVRTC ends with a zero, without it.
  [[nodiscard]] std::string c_string(NvrtcFunctions::Size* size, NvrtcFunctions::Text* read) const {
    std::string result = text(size, read);
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

 private:
  const NvrtcFunctions* functions_;
  Program program_ = nullptr;
};

CudaVersion nvrtc_version_of(const NvrtcFunctions& functions, const std::filesystem::path& path) {
  CudaVersion version;
  const NvrtcResult result = functions.version(&version.major, &version.minor);
  if (result != k_nvrtc_success || version < k_oldest) {
    throw NotSupported(fmt::format("{} is NVRTC {}; expected {} or later: install a newer one",
                                   path.string(), to_string(version), to_string(k_oldest)));
  }
  return version;
}

std::vector<int> archs_of(const NvrtcFunctions& functions) {
  int count = 0;
  if (functions.num_archs(&count) != k_nvrtc_success || count <= 0) return {};
  std::vector<int> archs(static_cast<std::size_t>(count));
  if (functions.archs(archs.data()) != k_nvrtc_success) return {};
  std::ranges::sort(archs);
  return archs;
}

}  // namespace

struct Nvrtc::Library {
  // Resident: NVRTC registers exit handlers and keeps data per thread.
  Library(const std::filesystem::path& file, LibraryTrust trust)
      : builtins(open_builtins(file, trust)),
        library(file, DynamicLibrary::Lifetime::resident),
        functions(library),
        version(nvrtc_version_of(functions, library.path())),
        archs(archs_of(functions)) {}

  std::vector<DynamicLibrary> builtins;
  DynamicLibrary library;
  NvrtcFunctions functions;
  CudaVersion version;
  std::vector<int> archs;
};

Nvrtc::Nvrtc(const std::filesystem::path& file, LibraryTrust trust)
    : library_(std::make_shared<const Library>(file, trust)) {}

const std::filesystem::path& Nvrtc::path() const noexcept { return library_->library.path(); }

CudaVersion Nvrtc::version() const noexcept { return library_->version; }

const std::vector<int>& Nvrtc::archs() const noexcept { return library_->archs; }

bool Nvrtc::supports(int arch) const noexcept {
  return std::ranges::find(archs(), arch) != archs().end();
}

bool Nvrtc::can_cancel() const noexcept { return library_->functions.set_callback != nullptr; }

std::vector<std::string> Nvrtc::command_line(const NvrtcOptions& options) const {
  const bool to_ptx = options.output == NvrtcOptions::Output::ptx;
  std::vector<std::string> result = {
      fmt::format("--gpu-architecture={}_{}", to_ptx ? "compute" : "sm", options.arch),
      "--std=c++17", "--fmad=false", "--modify-stack-limit=false"};
  if (options.relocatable) result.emplace_back("--relocatable-device-code=true");
  if (version() >= k_knows_cache) result.emplace_back("--no-cache");
  result.insert(result.end(), options.more.begin(), options.more.end());
  return result;
}

CompiledCode Nvrtc::compile(std::string_view name, const std::string& source,
                            const NvrtcOptions& options) const {
  if (!supports(options.arch)) {
    throw NotSupported(fmt::format(
        "NVRTC {} ({}) does not compile for sm_{}; it does for sm_{}: choose one of those, or "
        "install a CUDA version that has sm_{} and name its folder in SPJIT_CUDA_PATH",
        to_string(version()), path().string(), options.arch, fmt::join(archs(), ", sm_"),
        options.arch));
  }
  const auto cancelled = [&] {
    return CompileCancelled(
        fmt::format("compiling '{}' was given up: its deadline had passed or "
                    "it was told to stop; allow more time or smaller units",
                    name));
  };
  if (options.cancel.reached()) throw cancelled();
  const NvrtcFunctions& functions = library_->functions;
  const ProgramHandle program(functions, source, std::string(name));
  Cancellation cancel = options.cancel;
  if (functions.set_callback != nullptr) {
    functions.set_callback(program.get(), flow_callback, &cancel);
  }
  const std::vector<std::string> arguments = command_line(options);
  std::vector<const char*> pointers;
  pointers.reserve(arguments.size());
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  const NvrtcResult result =
      functions.compile(program.get(), static_cast<int>(pointers.size()), pointers.data());

  std::string log = program.c_string(functions.log_size, functions.log);
  if (result == k_cancelled || (result == k_nvrtc_success && cancel.reached())) throw cancelled();
  if (result != k_nvrtc_success) {
    throw CompileFailed(
        fmt::format("NVRTC {} cannot compile '{}' for sm_{}: {}; see the log", to_string(version()),
                    name, options.arch, functions.error_string(result)),
        std::move(log));
  }
  if (options.output == NvrtcOptions::Output::ptx) {
    return {program.c_string(functions.ptx_size, functions.ptx), std::move(log)};
  }
  return {program.text(functions.cubin_size, functions.cubin), std::move(log)};
}

}  // namespace spjit
