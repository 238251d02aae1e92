#include "runtime/cuda/cubin_info.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;

using spjit::CubinInfo;
using spjit::CubinKernel;

/// Removed with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (fs::temp_directory_path() / "spjit_cubin_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw spjit::IoError(name + ": cannot be created");
    path_ = name;
  }
  ~ScratchDirectory() { fs::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

struct CommandResult {
  int status = -1;
  std::string output;
};

CommandResult run_command(const std::string& command) {
  CommandResult result;
  FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer = {};
  std::size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    result.output.append(buffer.data(), got);
  }
  result.status = ::pclose(pipe);
  return result;
}

/// The command to run a program of the toolkit, found on PATH or where the toolkit installs it.
std::optional<std::string> find_tool(const std::string& name) {
  for (const std::string& command : {name, "/usr/local/cuda/bin/" + name}) {
    if (run_command("command -v " + command).status == 0) return command;
  }
  return std::nullopt;
}

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// An architecture and the lowest PTX version that has it.
struct Arch {
  std::int64_t sm = 0;
  std::string ptx_version;
};

std::vector<Arch> architectures() {
  return {{75, "6.3"}, {80, "7.0"},  {86, "7.1"}, {89, "7.8"},
          {90, "7.8"}, {100, "8.6"}, {120, "8.7"}};
}

std::string header(const Arch& arch) {
  return fmt::format(".version {}\n.target sm_{}\n.address_size 64\n", arch.ptx_version, arch.sm);
}

/// Loads `values` floats, waits, then stores them all: so many are alive at once.
std::string copying_kernel(const std::string& name, int values, const std::string& bounds) {
  std::string text = fmt::format(
      ".visible .entry {}(.param .u64 from, .param .u64 to, .param .u32 unused) {}\n"
      "{{\n .reg .u64 %p<3>;\n .reg .f32 %f<{}>;\n"
      " ld.param.u64 %p1, [from];\n ld.param.u64 %p2, [to];\n",
      name, bounds, values);
  for (int i = 0; i < values; ++i) {
    text += fmt::format(" ld.volatile.global.f32 %f{}, [%p1+{}];\n", i, 4 * i);
  }
  text += " bar.sync 0;\n";
  for (int i = 0; i < values; ++i) {
    text += fmt::format(" st.volatile.global.f32 [%p2+{}], %f{};\n", 4 * i, i);
  }
  return text + " ret;\n}\n";
}

std::string shared_kernel(int bytes) {
  return fmt::format(
      ".visible .entry shared_memory(.param .u64 to) .reqntid 64, 2, 1\n"
      "{{\n .shared .align 4 .b8 buffer[{}];\n .reg .u64 %p<2>;\n .reg .u32 %r<4>;\n"
      " ld.param.u64 %p1, [to];\n mov.u32 %r1, %tid.x;\n mov.u32 %r2, buffer;\n"
      " st.volatile.shared.u32 [%r2], %r1;\n bar.sync 0;\n"
      " ld.volatile.shared.u32 %r3, [%r2];\n"
      " st.global.u32 [%p1], %r3;\n ret;\n}}\n",
      bytes);
}

std::string test_ptx(const Arch& arch) {
  return header(arch) + copying_kernel("plain", 4, "") +
         copying_kernel("bounded", 100, ".maxntid 256, 1, 1") +
         copying_kernel("spilling", 100, ".maxntid 1024, 1, 1 .minnctapersm 1 .maxnreg 32") +
         shared_kernel(263);
}

/// The cubin and what ptxas -v printed; none if this ptxas does not know the architecture.
struct Compiled {
  std::vector<std::byte> cubin;
  std::string log;
};

std::optional<Compiled> compile(const ScratchDirectory& directory, const std::string& ptxas,
                                const Arch& arch, const std::string& flags = "") {
  std::ofstream(directory.file("in.ptx")) << test_ptx(arch);
  const CommandResult result =
      run_command(fmt::format("{} -v {} -arch=sm_{} {} -o {}", ptxas, flags, arch.sm,
                              directory.file("in.ptx"), directory.file("out.cubin")));
  if (result.output.find("is not defined for option 'gpu-name'") != std::string::npos ||
      result.output.find("Unsupported .version") != std::string::npos) {
    return std::nullopt;
  }
  EXPECT_EQ(result.status, 0) << result.output;
  return Compiled{read_bytes(directory.file("out.cubin")), result.output};
}

/// What ptxas -v says of a kernel.
struct PtxasReport {
  std::int64_t registers = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t shared_bytes = 0;
  std::optional<std::int64_t> constant_bytes;
};

/// The number in front of `what`.
std::optional<std::int64_t> find_number(const std::string& text, const std::string& what) {
  const std::size_t end = text.find(what);
  if (end == std::string::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  return std::stoll(text.substr(begin, end - begin));
}

std::map<std::string, PtxasReport> parse_report(const std::string& log) {
  std::map<std::string, PtxasReport> reports;
  const std::string marker = "Compiling entry function '";
  for (std::size_t at = log.find(marker); at != std::string::npos;) {
    const std::size_t next = log.find(marker, at + 1);
    const std::string part = log.substr(at, next == std::string::npos ? next : next - at);
    const std::size_t name_end = part.find('\'', marker.size());
    PtxasReport& report = reports[part.substr(marker.size(), name_end - marker.size())];
    report.registers = find_number(part, " registers").value();
    report.stack_bytes = find_number(part, " bytes stack frame").value();
    report.spill_store_bytes = find_number(part, " bytes spill stores").value();
    report.shared_bytes = find_number(part, " bytes smem").value_or(0);
    report.constant_bytes = find_number(part, " bytes cmem[0]");
    at = next;
  }
  return reports;
}

void expect_same(const CubinKernel& kernel, const PtxasReport& report) {
  EXPECT_EQ(kernel.registers, report.registers);
  EXPECT_EQ(kernel.frame_bytes, report.stack_bytes);
  EXPECT_EQ(kernel.static_shared_bytes, report.shared_bytes);
  if (report.constant_bytes) {
    EXPECT_EQ(kernel.constant_bytes, *report.constant_bytes);
  }
  // The kernels have no local arrays: a stack is what spills go to.
  EXPECT_EQ(kernel.stack_bytes > 0, report.spill_store_bytes > 0);
}

class CubinOfPtxas : public testing::Test {
 protected:
  void SetUp() override {
    ptxas_ = find_tool("ptxas");
    if (!ptxas_) GTEST_SKIP() << "no ptxas on PATH or in /usr/local/cuda/bin";
  }
  [[nodiscard]] const std::string& ptxas() const { return *ptxas_; }

 private:
  std::optional<std::string> ptxas_;
};

TEST_F(CubinOfPtxas, HasTheResourcesThatPtxasReports) {
  const ScratchDirectory directory;
  int compared = 0;
  for (const Arch& arch : architectures()) {
    SCOPED_TRACE(fmt::format("sm_{}", arch.sm));
    const std::optional<Compiled> compiled = compile(directory, ptxas(), arch);
    if (!compiled) continue;

    const CubinInfo info = spjit::read_cubin_info(compiled->cubin);

    EXPECT_EQ(info.arch, arch.sm);
    EXPECT_FALSE(info.relocatable);
    const std::map<std::string, PtxasReport> reports = parse_report(compiled->log);
    ASSERT_EQ(reports.size(), 4U) << compiled->log;
    ASSERT_EQ(info.kernels.size(), reports.size());
    for (const auto& [name, report] : reports) {
      SCOPED_TRACE(name);
      const CubinKernel* kernel = info.find_kernel(name);
      ASSERT_NE(kernel, nullptr);
      expect_same(*kernel, report);
      ++compared;
    }
    EXPECT_GT(info.find_kernel("spilling")->stack_bytes, 0);
    EXPECT_EQ(info.find_kernel("bounded")->stack_bytes, 0);
  }
  EXPECT_GT(compared, 0);
}

TEST_F(CubinOfPtxas, HasBoundsParametersAndCode) {
  const ScratchDirectory directory;
  const std::optional<Compiled> compiled = compile(directory, ptxas(), {90, "7.8"});
  ASSERT_TRUE(compiled.has_value());

  const CubinInfo info = spjit::read_cubin_info(compiled->cubin);

  EXPECT_EQ(info.find_kernel("plain")->max_threads, 0);
  EXPECT_EQ(info.find_kernel("bounded")->max_threads, 256);
  EXPECT_EQ(info.find_kernel("shared_memory")->max_threads, 128);
  EXPECT_EQ(info.find_kernel("plain")->parameter_bytes, 20);
  EXPECT_EQ(info.find_kernel("shared_memory")->parameter_bytes, 8);
  // 100 loads and 100 stores of 16 bytes each, at least.
  EXPECT_GE(info.find_kernel("bounded")->code_bytes, 3200);
  std::int64_t code_bytes = 0;
  for (const CubinKernel& kernel : info.kernels) code_bytes += kernel.code_bytes;
  EXPECT_EQ(info.code_bytes, code_bytes);
}

TEST_F(CubinOfPtxas, RelocatableObjectsAreReadAsWell) {
  const ScratchDirectory directory;
  const std::optional<Compiled> compiled = compile(directory, ptxas(), {90, "7.8"}, "-c");
  ASSERT_TRUE(compiled.has_value());

  const CubinInfo info = spjit::read_cubin_info(compiled->cubin);

  EXPECT_TRUE(info.relocatable);
  EXPECT_EQ(info.find_kernel("shared_memory")->static_shared_bytes, 263);
  EXPECT_GT(info.find_kernel("spilling")->stack_bytes, 0);
}

TEST_F(CubinOfPtxas, TruncatedAnywhereIsAnError) {
  const ScratchDirectory directory;
  for (const Arch& arch : architectures()) {
    const std::optional<Compiled> compiled = compile(directory, ptxas(), arch);
    if (!compiled) continue;
    const std::span<const std::byte> cubin(compiled->cubin);

    for (std::size_t size = 0; size < cubin.size(); ++size) {
      ASSERT_THROW((void)spjit::read_cubin_info(cubin.first(size)), spjit::Error)
          << "sm_" << arch.sm << " " << size;
    }
  }
}

TEST_F(CubinOfPtxas, NoFlippedByteCrashesTheReader) {
  const ScratchDirectory directory;
  const std::optional<Compiled> compiled = compile(directory, ptxas(), {90, "7.8"});
  ASSERT_TRUE(compiled.has_value());
  std::vector<std::byte> cubin = compiled->cubin;
  std::int64_t refused = 0;

  for (std::byte& byte : cubin) {
    byte = ~byte;
    try {
      (void)spjit::read_cubin_info(cubin);
    } catch (const spjit::Error&) {
      ++refused;
    }
    byte = ~byte;
  }

  EXPECT_GT(refused, 0);
  EXPECT_EQ(cubin, compiled->cubin);
}

TEST_F(CubinOfPtxas, AgreesWithCuobjdump) {
  const std::optional<std::string> cuobjdump = find_tool("cuobjdump");
  if (!cuobjdump) GTEST_SKIP() << "no cuobjdump on PATH or in /usr/local/cuda/bin";
  const ScratchDirectory directory;
  for (const Arch& arch : architectures()) {
    SCOPED_TRACE(fmt::format("sm_{}", arch.sm));
    const std::optional<Compiled> compiled = compile(directory, ptxas(), arch);
    if (!compiled) continue;
    const CommandResult dump =
        run_command(*cuobjdump + " -res-usage " + directory.file("out.cubin"));
    ASSERT_EQ(dump.status, 0) << dump.output;

    const CubinInfo info = spjit::read_cubin_info(compiled->cubin);

    for (const CubinKernel& kernel : info.kernels) {
      // From sm_90 on cuobjdump counts the driver's reserve where there is static shared memory.
      const bool with_reserve = arch.sm >= 90 && kernel.static_shared_bytes > 0;
      const std::string expected = fmt::format(
          "Function {}:\n  REG:{} STACK:{} SHARED:{} LOCAL:0", kernel.name, kernel.registers,
          kernel.stack_bytes, kernel.static_shared_bytes + (with_reserve ? 1024 : 0));
      EXPECT_NE(dump.output.find(expected), std::string::npos) << expected << "\n" << dump.output;
    }
  }
}

}  // namespace
