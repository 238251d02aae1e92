// Writes the seeds of the fuzz targets that spjit itself can make: make_seeds FOLDER.
// scripts/data/make_fuzz_seeds.sh calls it and adds what compilers make.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/file_bytes.hpp"
#include "base/gzip.hpp"
#include "base/hash.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "kernels/host/unrolled/weight_positions.hpp"
#include "matrix/writers.hpp"
#include "matrix/zip_archive.hpp"
#include "rankmodel/rank_model.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/bundle/bundle_index.hpp"
#include "runtime/cache/cache_record.hpp"
#include "spjit/generate.hpp"
#include "tests/support/files/safetensors_file.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using namespace spjit;  // NOLINT(google-build-using-namespace): a program of the project's own

using Content = std::vector<std::byte>;

template <typename Number, std::size_t Count>
Content npy(std::string_view descr, std::string_view shape,
            const std::array<Number, Count>& values) {
  return make_npy(descr, shape, std::as_bytes(std::span(values)));
}

CsrMatrix small_matrix() {
  GenerateOptions options;
  options.rows = 7;
  options.cols = 9;
  options.sparsity = 0.7;
  return generate_matrix(options);
}

class SeedFolder {
 public:
  explicit SeedFolder(std::filesystem::path root) : root_(std::move(root)) {}

  void add(const std::string& target, const std::string& name, std::span<const std::byte> bytes) {
    std::filesystem::create_directories(root_ / target);
    publish_file(root_ / target / name, bytes);
  }
  void add(const std::string& target, const std::string& name, std::string_view text) {
    add(target, name, std::as_bytes(std::span(text)));
  }

 private:
  std::filesystem::path root_;
};

void add_smtx(SeedFolder& seeds) {
  seeds.add("smtx", "five", "5, 5, 9\n0 2 2 3 8 9 \n0 3 2 0 1 2 3 4 0 \n");
  seeds.add("smtx", "blanks", "2 3 2\r\n0  1\t2\r\n2 0\r\n\r\n");
  seeds.add("smtx", "empty", "3,4,0\n0 0 0 0\n");
  seeds.add("smtx", "none", "0, 0, 0\n0\n\n");
  seeds.add("smtx", "unsorted", "1, 12, 5\n0 5\n11 3 7 0 5\n");
}

void add_mtx(SeedFolder& seeds) {
  const std::string banner = "%%MatrixMarket matrix ";
  seeds.add("mtx", "real",
            banner +
                "coordinate real general\n% note\n3 4 3\n1 1 .5\n3 4 -2e-3\n"
                "2 2 inf\n");
  seeds.add("mtx", "integer", banner + "coordinate integer symmetric\n3 3 2\n1 1 +7\n3 1 -128\n");
  seeds.add("mtx", "skew", banner + "coordinate real skew-symmetric\n3 3 2\n2 1 1.5\n3 2 0\n");
  seeds.add("mtx", "hermitian", banner + "coordinate complex Hermitian\n2 2 2\n1 1 1 0\n2 1 3 0\n");
  seeds.add("mtx", "pattern", banner + "coordinate pattern general\r\n4 5 2\r\n4 5\r\n\r\n1 1\r\n");
  seeds.add("mtx", "double", banner + "coordinate double general\n1 1 1\n1 1 1e-45\n");
  seeds.add("mtx", "array", banner + "array real general\n2 2\n1\n0\n-0\nnan\n");
  seeds.add("mtx", "array_skew", banner + "array integer skew-symmetric\n3 3\n1\n2\n3\n");
  seeds.add("mtx", "array_complex", banner + "array complex symmetric\n2 2\n1 0\n2 0\n3 0\n");
  seeds.add("mtx", "no_columns", banner + "array real general\n3 0\n");
}

// Named arrays of several types, as .npy files.
std::map<std::string, Content> arrays() {
  return {{"f4", npy("<f4", "(2, 3)", std::array<float, 6>{1, 0, -2, 0.5F, 0, 3})},
          {"f8_big", npy(">f8", "(1, 2)", std::array<std::uint64_t, 2>{0xF03F, 0})},
          {"f2", npy("<f2", "(2, 2)", std::array<std::uint16_t, 4>{0x3C00, 0, 1, 0xFC00})},
          {"i1", npy("|i1", "(4,)", std::array<std::int8_t, 4>{-1, 0, 1, 127})},
          {"u8", npy("<u8", "(1, 1)", std::array<std::uint64_t, 1>{1U << 31U})},
          {"bool", npy("|b1", "(2, 2)", std::array<std::uint8_t, 4>{1, 0, 0, 1})},
          {"text", npy("|S3", "()", std::array<char, 3>{'c', 's', 'r'})},
          {"utf32", npy("<U3", "()", std::array<std::uint32_t, 3>{'c', 'o', 'o'})},
          {"no_columns", npy("<f4", "(5, 0)", std::array<float, 0>{})}};
}

void add_npy(SeedFolder& seeds) {
  for (const auto& entry : arrays()) seeds.add("npy", entry.first, entry.second);
  std::string fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 2L)}\n";
  std::string file("\x93NUMPY\x02\x00", 8);
  file += static_cast<char>(fortran.size());
  file += std::string(3, '\0') + fortran + std::string(16, '\1');
  seeds.add("npy", "fortran", file);
}

void add_safetensors(SeedFolder& seeds) {
  using test::float_tensor;
  using test::TensorBytes;
  const TensorBytes shape =
      test::tensor("w.shape", "I64", "[2, 9]", std::array<std::int64_t, 2>{2, 9});
  seeds.add("safetensors", "plain",
            test::safetensors({float_tensor("a.bias", "[2]", {1, 0}),
                               float_tensor("a.weight", "[2, 3]", {1, 0, 0, 0, -2, 0})},
                              R"("__metadata__": {"format": "pt"})"));
  seeds.add("safetensors", "masked",
            test::safetensors({float_tensor("c.weight_mask", "[2, 1, 1, 2]", {1, 0, 0, 1}),
                               float_tensor("c.weight_orig", "[2, 1, 1, 2]", {3, 4, 5, 6})}));
  seeds.add("safetensors", "int_quantized",
            test::safetensors({test::tensor("q.weight", "I8", "[2, 2]",
                                            std::array<std::int8_t, 4>{1, 0, -128, 127}),
                               float_tensor("q.weight_scale", "[2, 1]", {0.5F, 2})}));
  seeds.add("safetensors", "pack_quantized",
            test::safetensors(
                {test::tensor("p.weight_packed", "I32", "[2, 2]",
                              std::array<std::int32_t, 4>{0x12345678, 8, 0x08888880, 7}),
                 float_tensor("p.weight_scale", "[2, 1]", {0.5F, 2}),
                 test::tensor("p.weight_shape", "I64", "[2]", std::array<std::int64_t, 2>{2, 9})}));
  seeds.add(
      "safetensors", "bitmask",
      test::safetensors(
          {test::tensor("w.bitmask", "U8", "[2, 2]", std::array<std::uint8_t, 4>{0x81, 1, 0, 1}),
           test::tensor("w.compressed", "BF16", "[4]",
                        std::array<std::uint16_t, 4>{0x3F80, 0xC000, 0x4040, 0x3F00}),
           test::tensor("w.row_offsets", "I64", "[2, 1]", std::array<std::int64_t, 2>{0, 3}),
           shape}));
  seeds.add("safetensors", "types",
            test::safetensors(
                {test::tensor("d", "F64", "[1, 2]", std::array<double, 2>{0.1, 0}),
                 test::tensor("h", "F16", "[2, 1]", std::array<std::uint16_t, 2>{0x3C00, 0}),
                 test::tensor("i", "I8", "[1, 2]", std::array<std::int8_t, 2>{1, 0}),
                 float_tensor("none", "[3, 0]", {}), float_tensor("scalar", "[]", {1})}));
}

// An archive of sparse arrays: what scipy writes for csr and csc (three offsets) and for coo.
std::vector<ZipMember> sparse_members(std::string_view format) {
  const Content shape = npy("<i8", "(2,)", std::array<std::int64_t, 2>{2, 2});
  const Content ones = npy("<i4", "(2,)", std::array<std::int32_t, 2>{1, 0});
  std::vector<ZipMember> members = {
      {"format.npy", make_npy("|S3", "()", std::as_bytes(std::span(format)))},
      {"shape.npy", shape},
      {"data.npy", npy("<f4", "(2,)", std::array<float, 2>{1.5F, 0})}};
  if (format == "coo") {
    members.push_back({"row.npy", ones});
    members.push_back({"col.npy", ones});
  } else {
    members.push_back({"indices.npy", ones});
    members.push_back({"indptr.npy", npy("<i4", "(3,)", std::array<std::int32_t, 3>{0, 1, 2})});
  }
  return members;
}

// The input of npz_arrays_fuzz.cpp.
Content array_list(const std::vector<ZipMember>& members) {
  const std::array<std::string_view, 8> names = {"format.npy",  "shape.npy",  "data.npy",
                                                 "indices.npy", "indptr.npy", "row.npy",
                                                 "col.npy",     "dense.npy"};
  Content list;
  for (const ZipMember& member : members) {
    const auto index = std::find(names.begin(), names.end(), member.name) - names.begin();
    list.push_back(static_cast<std::byte>(index));
    list.push_back(static_cast<std::byte>(member.contents.size() & 0xFFU));
    list.push_back(static_cast<std::byte>(member.contents.size() >> 8U));
    list.insert(list.end(), member.contents.begin(), member.contents.end());
  }
  return list;
}

void add_npz(SeedFolder& seeds) {
  for (const char* format : {"csr", "csc", "coo"}) {
    const std::vector<ZipMember> members = sparse_members(format);
    seeds.add("npz", format, make_zip(members, true, format));
    seeds.add("npz", std::string(format) + "_stored", make_zip(members, false, format));
    seeds.add("npz_arrays", format, array_list(members));
  }
  seeds.add("npz", "written", format_npz(small_matrix(), true, "written"));
  for (const char* name : {"f4", "i1", "no_columns"}) {
    const std::vector<ZipMember> members = {{"dense.npy", arrays().at(name)}};
    seeds.add("npz", std::string("dense_") + name, make_zip(members, true, name));
    seeds.add("npz_arrays", std::string("dense_") + name, array_list(members));
  }
}

void add_gzip(SeedFolder& seeds) {
  seeds.add("gzip", "empty", gzip(""));
  seeds.add("gzip", "text", gzip("one line\nand another line\n"));
  seeds.add("gzip", "zeros", gzip(std::string(100'000, '\0')));
}

void add_rank_model(SeedFolder& seeds) {
  RankModel model{.name = "stumps",
                  .schema = "test",
                  .schema_version = 2,
                  .features = {"m1", "nv", "n"},
                  .provenance = {{"rounds", 2}}};
  model.trees.push_back({{{.value = 0.5F, .feature = 1, .left = 1, .default_left = true},
                          {.value = -1},
                          {.value = 2.25F}}});
  model.trees.push_back({{{.value = 3, .feature = 0, .left = 1},
                          {.value = 1e-30F, .feature = 2, .left = 3},
                          {.value = -0.0F},
                          {.value = 7},
                          {.value = 3.4e38F}}});
  seeds.add("rank_model", "stumps", write_rank_model(model));
  model.trees.clear();
  seeds.add("rank_model", "no_trees", write_rank_model(model));
}

void add_samples(SeedFolder& seeds) {
  HostSampleGroup group;
  group.name = "uniform 8x32";
  group.recipe = {{"rows", 8}, {"file", "a/b.smtx"}};
  group.limits.isa = HostIsa::avx512;
  group.limits.name = "a CPU";
  group.work = {8, 32, 64, 48, 2, 0.25};
  group.seconds = 1.5;
  HostSample sample;
  sample.candidate.tile.m1 = 4;
  sample.candidate.grouping.tiles = 2;
  sample.candidate.grouping.nnc_sum = 32;
  sample.us = 12.5;
  sample.samples = 7;
  group.samples = {sample, sample};
  group.samples[1].candidate.tile.nv = 2;
  seeds.add("samples", "two_tiles", write_samples(group));
  CudaSampleGroup compiled;
  compiled.name = "uniform 8x32";
  compiled.recipe = group.recipe;
  compiled.limits = parse_cuda_target("sm_90");
  compiled.work = group.work;
  compiled.times = TimeKind::none;
  CudaSample tile;
  tile.candidate.column_tiles = 1;
  tile.candidate.blocks = 2;
  tile.key = std::string(64, 'a');
  compiled.samples = {tile, tile};
  seeds.add("samples", "compiled_tiles", write_samples(compiled));
}

// Without the first line, which holds the checksum: see cache_record_fuzz.cpp.
void add_cache_record(SeedFolder& seeds) {
  const CacheRecord record = {
      .spjit_version = "0.1.0",
      .key = std::string(64, 'a'),
      .created = "2026-01-31T23:59:59Z",
      .files = {{.name = "kernel.o", .bytes = 12, .checksum = std::string(32, '1')}},
      .kernel = {{"tile", {28, 16}}, {"note", "5 \u00b5s"}, {"sparsity", 0.9}}};
  const std::string text = write_cache_record(record);
  seeds.add("cache_record", "one_file", text.substr(text.find('\n') + 1));
  seeds.add("cache_record", "whole", text);
}

// Of the input of bundle_fuzz.cpp: a page that fits its checksums, and what lies elsewhere.
void add_bundle(SeedFolder& seeds) {
  const std::vector<std::byte> page(to_size(k_bundle_page), std::byte{1});
  const nlohmann::json record = {
      {"family", "csr"},
      {"target", "host-avx2"},
      {"problem",
       {{"a", {{"rows", 2}, {"cols", 3}, {"nnz", 2}, {"hash", std::string(32, 'a')}}},
        {"n", {{"value", 8}, {"runtime", true}}}}}};
  BundleIndex index;
  index.blobs = {{.offset = k_bundle_page,
                  .bytes = k_bundle_page,
                  .checksum = checksum_hex(page),
                  .sha256 = hex_text(sha256(page))}};
  index.kernels = {{.layer = "fc1",
                    .key = std::string(64, '1'),
                    .spjit = "0.1.0",
                    .files = {{"kernel.o", 0}, {"other", 0}},
                    .record = record}};
  const auto add = [&](const char* name, char pages, const std::string& text) {
    const std::string input = pages + text;
    seeds.add("bundle", name, std::as_bytes(std::span(input)));
  };
  const std::string one = write_bundle_index(index);
  add("one", 1, one);
  add("too_many_pages", 2, one);
  index.kernels[0].files.pop_back();
  index.kernels.push_back(index.kernels[0]);
  index.kernels[1].layer = "fc2";
  index.kernels[1].record = {1, 2};
  add("two_kernels", 1, write_bundle_index(index));
  index.kernels[1].layer = "fc1";
  add("twice", 1, write_bundle_index(index));
  index.blobs[0].offset = 0;
  add("in_the_header", 1, write_bundle_index(index));
  index.blobs[0] = {k_bundle_page, k_most_blob_bytes, std::string(32, '0'), std::string(64, '0')};
  add("huge", 1, write_bundle_index(index));
  add("empty", 0, write_bundle_index({}));
}

Problem problem_of(const CsrMatrix& matrix, Extent n) {
  Problem problem;
  problem.a = matrix;
  problem.n = n;
  return problem;
}

/// host_program_fuzz.cpp has weights for seven entries.
CsrMatrix seven_entries(std::int64_t cols) {
  return {2, cols, {0, 3, 7}, {0, 4, 8, 1, 2, 3, 5}, std::vector<float>(7, 1.0F)};
}

/// A of narrow types, with scales of rows or of groups, and B that is quantised.
void add_narrow_host(SeedFolder& seeds) {
  const auto add = [&](const std::string& name, const Problem& problem, const std::string& family,
                       HostIsa isa) {
    const HostArtifact artifact = make_csr_artifact(problem, family, isa);
    seeds.add("host_program", name, artifact.image().program);
    seeds.add("host_object", name, write_object(artifact.image(), "kernel"));
  };
  const auto scales = std::make_shared<const GroupScales>(GroupScales{32, {0.5F, -1, 0, 2}});
  Problem rows = problem_of(seven_entries(40), 1);
  rows.numerics.a = DataType::i8;
  rows.epilogue.scale = true;
  Problem groups = problem_of(seven_entries(40), Extent::at_run_time(20));
  groups.numerics = {.a = DataType::i4, .b = DataType::bf16, .c = DataType::bf16};
  groups.group_scales = scales;
  add("groups_i4", groups, "compact", HostIsa::avx512);
  groups.numerics = rows.numerics;
  add("groups_i8", groups, "windows", HostIsa::avx512);
  groups.numerics = {DataType::i4, DataType::u8, DataType::f32, Accumulate::integer()};
  add("groups_exact", groups, "byte_windows", HostIsa::avx2);
  add("scale_of_rows", rows, "windows", HostIsa::avx2);
  rows.numerics.a = DataType::i4;
  add("four_bits", rows, "compact", HostIsa::avx2);
  const auto of_bytes = [&](DataType b, Quantization quantization) {
    rows.numerics = {DataType::i8, b, DataType::f32, Accumulate::integer(), quantization};
    return rows;
  };
  add("token", of_bytes(DataType::f32, Quantization::token), "byte_windows", HostIsa::avx512);
  add("tensor", of_bytes(DataType::f32, Quantization::tensor), "compact", HostIsa::avx2);
  add("given", of_bytes(DataType::u8, Quantization::given), "reference", HostIsa::generic);
}

void add_host(SeedFolder& seeds) {
  const CsrMatrix matrix = small_matrix();
  HostTile tile;
  tile.m1 = 2;
  tile.k_block = 5;
  const auto grouping = group_rows(matrix, 2, ReorderAlgorithm::none);
  const HostArtifact unrolled = make_unrolled_artifact(build_plan(matrix, grouping, 5), tile,
                                                       problem_of(matrix, 20), HostIsa::avx2);
  const CsrMatrix seven = seven_entries(matrix.cols);
  const HostArtifact csr = make_csr_artifact(problem_of(seven, 20), "csr", HostIsa::avx2);
  const HostArtifact windows = make_csr_artifact(problem_of(seven, 1), "windows", HostIsa::avx512);
  Problem layer = problem_of(seven, Extent::at_run_time(20));
  layer.b.layout = layer.c.layout = Layout::tokens_major;
  layer.epilogue = {.scale = true,
                    .bias = true,
                    .residual = true,
                    .activation = Activation::clamp,
                    .low = -std::numeric_limits<float>::infinity(),
                    .high = 6};
  layer.runtime_values = true;
  const HostArtifact reference = make_csr_artifact(layer, "reference", HostIsa::generic);
  Problem of_bytes = problem_of(seven, Extent::at_run_time(20));
  of_bytes.numerics = {DataType::i8, DataType::i8, DataType::i32, Accumulate::integer()};
  const HostArtifact bytes = make_csr_artifact(of_bytes, "byte_windows", HostIsa::avx2);
  Problem of_halves = problem_of(seven, 20);
  of_halves.numerics = {DataType::bf16, DataType::bf16, DataType::f16, {}};
  const HostArtifact halves = make_csr_artifact(of_halves, "compact", HostIsa::avx2);
  Problem runtime = problem_of(seven, 20);
  runtime.runtime_values = true;
  const KernelPlan positions = build_plan(*with_positions(runtime).a,
                                          group_rows(seven, 2, ReorderAlgorithm::none), seven.cols);
  tile.k_block = 0;
  const HostArtifact values = make_unrolled_artifact(positions, tile, runtime, HostIsa::avx2);
  seeds.add("host_program", "unrolled", unrolled.image().program);
  seeds.add("host_program", "csr", csr.image().program);
  seeds.add("host_program", "windows", windows.image().program);
  seeds.add("host_program", "byte_windows", bytes.image().program);
  seeds.add("host_program", "reference", reference.image().program);
  seeds.add("host_program", "halves", halves.image().program);
  seeds.add("host_program", "values", values.image().program);
  seeds.add("host_object", "values", write_object(values.image(), "kernel"));
  seeds.add("host_object", "unrolled", write_object(unrolled.image(), "kernel"));
  seeds.add("host_object", "csr", write_object(csr.image(), "kernel"));
  seeds.add("host_object", "windows", write_object(windows.image(), "kernel"));
  seeds.add("host_object", "byte_windows", write_object(bytes.image(), "kernel"));
  seeds.add("host_object", "reference", write_object(reference.image(), "kernel"));
  seeds.add("host_object", "halves", write_object(halves.image(), "kernel"));
  seeds.add("elf_object", "unrolled", write_object(unrolled.image(), "kernel"));
}

void add_cuda_record(SeedFolder& seeds) {
  UnrolledProgram program;
  program.arch = 90;
  program.rows = 64;
  program.cols = 36;
  program.nnz = 205;
  program.n = program.ldb = program.ldc = 128;
  program.layer.c_layout = Layout::tokens_major;
  program.layer.runtime_values = true;
  program.layer.convolution = spjit::testing_support::padded_3x3(4, 8, 16);
  program.layer.epilogue = {.bias = true, .activation = Activation::clamp, .low = 0, .high = 6};
  program.threads = 64;
  program.blocks_x = 4;
  const nlohmann::json record = {{"program", to_json(program)},
                                 {"family", "unrolled"},
                                 {"target", "sm_90"},
                                 {"device", "H100"},
                                 {"tile", {{"name", "8x64"}}},
                                 {"search", {{"reason", "ranked first"}}},
                                 {"compiled_from", "ptx"},
                                 {"toolchain", "NVRTC 13.0"},
                                 {"note", ""},
                                 {"resources",
                                  {{"predicted_registers", 40},
                                   {"registers", 42},
                                   {"spilled_bytes", 0},
                                   {"active_blocks", 8},
                                   {"code_bytes", 4096}}}};
  seeds.add("cuda_record", "sm_90", record.dump(1));
}

/// The record's program in one line, and A.
void add_cuda_matrix(SeedFolder& seeds, const std::string& name, CudaProgram program,
                     const CsrMatrix& matrix) {
  program.arch = 90;
  program.rows = matrix.rows;
  program.cols = matrix.cols;
  program.nnz = matrix.nnz();
  std::string text = to_json(program).dump() + '\n';
  const Content file = write_cuda_matrix(matrix, !program.layer.runtime_values, {});
  text.append(reinterpret_cast<const char*>(file.data()), file.size());
  seeds.add("cuda_matrix", name, text);
}

void add_cuda_matrices(SeedFolder& seeds) {
  const CsrMatrix few = {3, 5, {0, 2, 2, 5}, {0, 3, 1, 2, 4}, {1, -0.5F, 2, 0, 4}};
  CudaProgram program;
  program.n = program.ldb = program.ldc = 8;
  add_cuda_matrix(seeds, "values", program, few);
  program.layer.runtime_values = true;
  add_cuda_matrix(seeds, "pattern", program, few);
  program.layer.convolution = spjit::testing_support::padded_3x3(1, 4, 4);
  program.n = program.ldb = program.ldc = 16;
  add_cuda_matrix(seeds, "image", program, {2, 9, {0, 3, 4}, {0, 4, 8, 2}, {1, 2, 3, 4}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  SeedFolder seeds(argv[1]);
  try {
    for (const auto add : {add_smtx, add_mtx, add_npy, add_npz, add_safetensors, add_gzip,
                           add_rank_model, add_samples, add_cache_record, add_bundle, add_host,
                           add_narrow_host, add_cuda_record, add_cuda_matrices}) {
      add(seeds);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
