#include "spjit/matrix_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/file_bytes.hpp"
#include "base/gzip.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::five_by_five;
using test::message_of;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

void expect_same_bits(const CsrMatrix& actual, const CsrMatrix& expected) {
  EXPECT_EQ(actual.rows, expected.rows);
  EXPECT_EQ(actual.cols, expected.cols);
  EXPECT_EQ(actual.row_ptrs, expected.row_ptrs);
  EXPECT_EQ(actual.col_idxs, expected.col_idxs);
  EXPECT_EQ(bits_of(actual.values), bits_of(expected.values));
}

std::size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

bool has_unnamed_files(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

class RoundTrip : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip, testing::Values("a.mtx", "a.npz", "A.MTX", "A.Npz"));

TEST_P(RoundTrip, KeepsEveryBitOfTheHandMadeMatrix) {
  const TemporaryFolder folder;

  save_matrix(five_by_five(), folder / GetParam());

  expect_same_bits(load_matrix(folder / GetParam()), five_by_five());
  EXPECT_EQ(files_in(folder), 1U);
}

TEST_P(RoundTrip, KeepsEveryBitOfOddValues) {
  const TemporaryFolder folder;
  using Limits = std::numeric_limits<float>;
  CsrMatrix matrix = five_by_five();
  matrix.values = {-0.0F,
                   Limits::denorm_min(),
                   Limits::min(),
                   Limits::max(),
                   Limits::lowest(),
                   Limits::infinity(),
                   -Limits::infinity(),
                   Limits::quiet_NaN(),
                   0.1F};

  save_matrix(matrix, folder / GetParam());

  expect_same_bits(load_matrix(folder / GetParam()), matrix);
}

TEST_P(RoundTrip, KeepsEmptyShapes) {
  const TemporaryFolder folder;
  for (const auto& [rows, cols] : {std::pair{0, 0}, {0, 7}, {7, 0}, {1, 1}, {3, 2}}) {
    CsrMatrix matrix;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.row_ptrs.assign(static_cast<std::size_t>(rows) + 1, 0);

    save_matrix(matrix, folder / GetParam());

    expect_same_bits(load_matrix(folder / GetParam()), matrix);
  }
}

TEST_P(RoundTrip, SortsRowsOnTheWay) {
  const TemporaryFolder folder;
  CsrMatrix matrix = five_by_five();
  std::swap(matrix.col_idxs[0], matrix.col_idxs[1]);
  std::swap(matrix.values[0], matrix.values[1]);

  save_matrix(matrix, folder / GetParam());

  expect_same_bits(load_matrix(folder / GetParam()), five_by_five());
}

TEST_P(RoundTrip, KeepsRandomMatricesOfEveryPattern) {
  const TemporaryFolder folder;
  std::uint64_t seed = 1;
  for (const MatrixPattern pattern :
       {MatrixPattern::uniform, MatrixPattern::uneven_rows, MatrixPattern::blocks,
        MatrixPattern::power_law, MatrixPattern::banded}) {
    for (const double sparsity : {0.0, 0.5, 0.93, 0.999}) {
      GenerateOptions options;
      options.pattern = pattern;
      options.rows = static_cast<std::int64_t>(1 + 37 * seed % 101);
      options.cols = static_cast<std::int64_t>(1 + 53 * seed % 97);
      options.sparsity = sparsity;
      options.seed = seed++;
      const CsrMatrix matrix = generate_matrix(options);

      save_matrix(matrix, folder / GetParam());

      expect_same_bits(load_matrix(folder / GetParam()), matrix);
    }
  }
}

TEST(LoadMatrix, RefusesWhatIsNoRegularFileWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo.mtx").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "device.npy");
  std::filesystem::create_directory(folder / "folder.smtx");

  EXPECT_THAT(message_of<IoError>([&] { return load_matrix(folder / "fifo.mtx"); }),
              HasSubstr("fifo.mtx: is a FIFO: expected a regular file"));
  EXPECT_THAT(message_of<IoError>([&] { return load_matrix(folder / "device.npy"); }),
              HasSubstr("device.npy: is a character device: expected a regular file"));
  EXPECT_THAT(message_of<IoError>([&] { return load_dense(folder / "device.npy"); }),
              HasSubstr("device.npy: is a character device: expected a regular file"));
  EXPECT_THAT(message_of<IoError>([&] { return load_matrix(folder / "folder.smtx"); }),
              HasSubstr("folder.smtx: cannot read: Is a directory"));
}

TEST(LoadMatrix, RefusesASocket) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "socket.npz";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.native().size(), sizeof(address.sun_path));
  path.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);

  const std::string message = message_of<IoError>([&] { return load_matrix(path); });

  ::close(socket);
  EXPECT_THAT(message, HasSubstr("socket.npz: is a socket: expected a regular file"));
}

TEST(LoadMatrix, RefusesAFileThatIsLargerThanTheMemory) {
  const TemporaryFolder folder;
  for (const char* name : {"a.mtx", "a.smtx", "a.npy", "a.npz"}) {
    SCOPED_TRACE(name);
    constexpr off_t k_bytes = off_t{15} << 40;
    std::ofstream(folder / name).put('x');
    if (::truncate((folder / name).c_str(), k_bytes) != 0) {
      GTEST_SKIP() << "this file system has no files of 15 TiB: " << std::strerror(errno);
    }

    EXPECT_THAT(message_of<IoError>([&] { return load_matrix(folder / name); }),
                AllOf(HasSubstr("has 16492674416640 bytes: expected less than"),
                      HasSubstr("the memory of this machine")));
  }
}

TEST(SaveMatrix, StoresOrDeflatesTheSameMatrix) {
  const TemporaryFolder folder;
  GenerateOptions options;
  const CsrMatrix matrix = generate_matrix(options);

  save_matrix(matrix, folder / "stored.npz", SaveOptions{false});
  save_matrix(matrix, folder / "deflated.npz");

  EXPECT_GT(file_size(folder / "stored.npz"), file_size(folder / "deflated.npz"));
  expect_same_bits(load_matrix(folder / "stored.npz"), load_matrix(folder / "deflated.npz"));
}

TEST(SaveMatrix, RefusesInvalidMatricesAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  CsrMatrix matrix = five_by_five();
  matrix.col_idxs[0] = 9;

  EXPECT_THROW(save_matrix(matrix, folder / "a.npz"), InvalidMatrix);
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(SaveMatrix, NamesTheFileItCannotWrite) {
  const TemporaryFolder folder;

  EXPECT_THAT(message_of<IoError>([&] { save_matrix({}, folder / "none/a.mtx"); }),
              HasSubstr("none/a.mtx: cannot create a temporary file beside it: No such file"));
  EXPECT_THAT(message_of<IoError>([&] { save_matrix({}, folder / "a.smtx"); }),
              HasSubstr("unknown extension '.smtx': expected .mtx or .npz"));
}

TEST(SaveMatrix, ReplacesNoDirectory) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a.mtx" / "taken");

  EXPECT_THAT(message_of<IoError>([&] { save_matrix({}, folder / "a.mtx"); }),
              HasSubstr("is no regular file"));
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(PublishFile, LeavesNothingWhenTheNameIsTakenMeanwhile) {
  const TemporaryFolder folder;
  {
    TemporaryFile file(folder / "f");
    std::filesystem::create_directories(folder / "f" / "taken");

    EXPECT_THAT(message_of<IoError>([&] { file.publish(); }), HasSubstr("cannot rename"));
  }
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(LoadMatrix, NamesTheFileItCannotRead) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder.mtx");

  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load_matrix(folder / "none.mtx")); }),
              HasSubstr("none.mtx: cannot open: No such file"));
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load_matrix(folder / "folder.mtx")); }),
              HasSubstr("folder.mtx: cannot read: Is a directory"));
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load_matrix(folder / "a.txt")); }),
              HasSubstr("unknown extension '.txt'"));
}

TEST(LoadMatrix, SaysWhatToDoWithFilesThatOthersWrite) {
  const TemporaryFolder folder;
  const auto message = [&](const char* name) {
    return message_of<IoError>([&] { static_cast<void>(load_matrix(folder / name)); });
  };

  EXPECT_THAT(message("a.txt"), HasSubstr(".smtx, .mtx (both also with .gz), .npy or .npz; of the "
                                          "command line also a model, .safetensors, "
                                          ".safetensors.index.json or .onnx"));
  EXPECT_THAT(message("a.txt"), Not(HasSubstr("becomes")));
  for (const char* name : {"m.safetensors", "m.SafeTensors", "m.safetensors.index.json"}) {
    EXPECT_THAT(message(name), HasSubstr("it is a model: expected the file of one matrix"));
    EXPECT_THAT(message(name), HasSubstr("load_weights() of C++"));
    EXPECT_THAT(message(name), HasSubstr("safetensors.numpy.load_file() of Python"));
    EXPECT_THAT(message(name), Not(HasSubstr("unknown extension")));
  }
  EXPECT_THAT(message("m.ONNX"), HasSubstr("'python -m spjit compile'"));
  EXPECT_THAT(message("m.onnx"), AllOf(HasSubstr("spjit.onnx.optimize() of Python"),
                                       Not(HasSubstr("load_weights()"))));
  EXPECT_THAT(message("m.spjit"),
              HasSubstr("it is a bundle of kernels, which need no matrix: 'spjit bundle ls'"));
  for (const char* name : {"m.pth", "m.pt", "m.ckpt", "pytorch_model.bin"}) {
    EXPECT_THAT(message(name), HasSubstr(std::string("torch.load('") + name + "'"));
    EXPECT_THAT(message(name), HasSubstr("save_file"));
  }
  EXPECT_THAT(message("m.gguf"), HasSubstr("gguf_file='m.gguf'"));
  EXPECT_THAT(message("weights"), HasSubstr("weights: there is no such file; expected a file"));
  EXPECT_THAT(message("."), HasSubstr("is a folder; expected a file"));
  EXPECT_THAT(message("a.tar.gz"), HasSubstr("unknown extension '.gz'"));
}

TEST(LoadMatrix, ReadsTextsThatGzipCompressed) {
  const TemporaryFolder folder;
  const CsrMatrix matrix = five_by_five();
  save_matrix(matrix, folder / "a.mtx");
  std::ifstream plain(folder / "a.mtx", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(plain), {}};
  const auto write = [&](const char* name, const std::vector<std::string>& parts) {
    std::ofstream file(folder / name, std::ios::binary);
    for (const std::string& part : parts) {
      const std::vector<std::byte> bytes = gzip(part);
      file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    }
  };
  write("a.mtx.gz", {text});
  write("b.MTX.GZ", {text.substr(0, 40), text.substr(40)});
  write("p.smtx.gz", {"1, 3, 2\n0 2\n0 2\n"});

  expect_same_bits(load_matrix(folder / "a.mtx.gz"), matrix);
  expect_same_bits(load_matrix(folder / "b.MTX.GZ"), matrix);
  EXPECT_EQ(load_matrix(folder / "p.smtx.gz").nnz(), 2);
}

TEST(LoadMatrix, NamesACompressedFileThatIsDamagedOrWrong) {
  const TemporaryFolder folder;
  const auto message = [&](const char* name, const std::vector<std::byte>& bytes) {
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return message_of<IoError>([&] { static_cast<void>(load_matrix(folder / name)); });
  };
  std::vector<std::byte> cut = gzip("%%MatrixMarket matrix coordinate real general\n");
  cut.resize(cut.size() - 5);

  EXPECT_THAT(message("cut.mtx.gz", cut), HasSubstr("cut.mtx.gz: "));
  EXPECT_THAT(message("cut.mtx.gz", cut), HasSubstr("are damaged"));
  EXPECT_THAT(message("no.mtx.gz", gzip("nonsense\n")), HasSubstr("no.mtx.gz:1: "));
}

class CompressedText : public testing::Test {
 protected:
  /// What reading a file that has these texts, each in a stream of its own, throws; or "".
  std::string message(const char* name, const std::vector<std::string>& parts) {
    std::ofstream file(folder_ / name, std::ios::binary);
    for (const std::string& part : parts) {
      const std::vector<std::byte> bytes = gzip(part);
      file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    }
    file.close();
    try {
      nnz_ = load_matrix(folder_ / name).nnz();
    } catch (const IoError& error) {
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
  std::int64_t nnz_ = -1;
};

constexpr std::size_t k_mib = std::size_t{1} << 20;

TEST_F(CompressedText, OfMoreThanItsSizesCanTakeIsRefused) {
  const std::string coordinate = "%%MatrixMarket matrix coordinate real general\n3 3 2\n";
  const std::string blanks(3 * k_mib, '\n');

  EXPECT_THAT(message("a.mtx.gz", {coordinate + "1 1 5\n2 2 7\n" + blanks}),
              AllOf(HasSubstr("a.mtx.gz: "), HasSubstr(" bytes unpack to over 2097536, more than "
                                                       "the 6 numbers of its first lines can")));
  EXPECT_THAT(message("b.mtx.gz", {coordinate, blanks}), HasSubstr("more than the 6 numbers"));
  EXPECT_THAT(message("c.mtx.gz", {"%%MatrixMarket matrix array complex general\n2 2\n" + blanks}),
              HasSubstr("more than the 8 numbers"));
  EXPECT_THAT(
      message("d.mtx.gz", {"%%MatrixMarket matrix coordinate pattern general\n3 3 9\n" + blanks}),
      HasSubstr("more than the 18 numbers"));
  // Of more entries than there are positions.
  EXPECT_THAT(message("e.mtx.gz", {"%%MatrixMarket matrix coordinate real general\n3 3 "
                                   "9000000000000000000\n" +
                                   blanks}),
              HasSubstr("more than the 27 numbers"));
  EXPECT_THAT(message("f.smtx.gz", {"1, 3, 2\n0 2\n0 2\n" + blanks}),
              HasSubstr("more than the 4 numbers"));
}

TEST_F(CompressedText, OfSizesThatDoNotComeEarlyIsRefused) {
  const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
  const std::string comment = "%" + std::string(k_mib, 'x') + "\n";

  EXPECT_THAT(message("a.mtx.gz", {banner + comment + "3 3 1\n1 1 5\n"}),
              HasSubstr("the sizes do not come within the first 1048576 bytes"));
  EXPECT_THAT(message("b.smtx.gz", {std::string(2 * k_mib, '1')}),
              HasSubstr("the sizes do not come within the first"));
  EXPECT_EQ(message("c.mtx.gz", {banner + "3 3 1\n1 1 5\n" + comment}), "");
  EXPECT_EQ(nnz_, 1);
}

TEST_F(CompressedText, OfManyNumbersIsRead) {
  std::string text = "%%MatrixMarket matrix coordinate real general\n%\n300 300 90000\n";
  for (int i = 0; i < 90'000; ++i) {
    text += fmt::format("{:>24} {:>24} {:>60}\n", i / 300 + 1, i % 300 + 1, "0.5");
  }
  ASSERT_GT(text.size(), 8 * k_mib);

  EXPECT_EQ(message("a.mtx.gz", {text}), "");
  EXPECT_EQ(nnz_, 90'000);
  EXPECT_THAT(message("b.mtx.gz", {text + "1 1 5\n"}), HasSubstr("goes on after the 90000"));
}

TEST(Dense, RoundTripsThroughNpy) {
  const TemporaryFolder folder;
  const DenseMatrix matrix{2, 3, {1, -0.0F, 3, 4, 5, 6}};

  save_dense(matrix, folder / "b.npy");
  const DenseMatrix loaded = load_dense(folder / "b.npy");

  EXPECT_EQ(loaded.rows, 2);
  EXPECT_EQ(loaded.cols, 3);
  EXPECT_EQ(bits_of(loaded.values), bits_of(matrix.values));
}

TEST(Dense, RefusesWrongSizesNamesAndExtensions) {
  const TemporaryFolder folder;
  save_dense({1, 1, {1}}, folder / "b.npy");

  EXPECT_THROW(save_dense({2, 2, {1, 2, 3}}, folder / "c.npy"), InvalidArgument);
  EXPECT_THROW(save_dense({-1, -1, {1}}, folder / "c.npy"), InvalidArgument);
  EXPECT_THROW(save_dense({1, 1, {1}}, folder / "c.mtx"), IoError);
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load_dense(folder / "b.npy", "x")); }),
              HasSubstr("array 'x' was asked for"));
  EXPECT_THROW(static_cast<void>(load_dense(folder / "b.mtx")), IoError);
}

TEST(PublishFile, ReplacesAFileWhole) {
  const TemporaryFolder folder;
  publish_file(folder / "f", test::as_bytes("a long first version"));

  publish_file(folder / "f", test::as_bytes("second"));

  const std::vector<std::byte> contents = read_file(folder / "f");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(contents.data()), contents.size()), "second");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(PublishFile, HasNoNameUntilItIsWhole) {
  const TemporaryFolder folder;
  if (!has_unnamed_files(folder.path())) GTEST_SKIP() << "no O_TMPFILE on this file system";

  TemporaryFile file(folder / "f");
  file.write(test::as_bytes("half"));

  EXPECT_EQ(files_in(folder), 0U);
  file.publish();
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(PublishFile, ReplacesNoDevice) {
  EXPECT_THROW(publish_file("/dev/null", test::as_bytes("text")), IoError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(PublishFile, GivesAFileThePermissionsOfNewFiles) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(027);
  publish_file(folder / "f", test::as_bytes("text"));
  ::umask(mask);

  EXPECT_EQ(std::filesystem::status(folder / "f").permissions(), std::filesystem::perms(0640));
}

TEST(Files, HaveNoZeroByteInTheirPaths) {
  const TemporaryFolder folder;
  publish_file(folder / "f", test::as_bytes("text"));
  const std::string path = (folder / "f").native() + std::string("\0.mtx", 5);

  EXPECT_THROW(static_cast<void>(read_file(path)), IoError);
  EXPECT_THROW(static_cast<void>(load_matrix(path)), IoError);
  EXPECT_THROW(publish_file(path, test::as_bytes("other")), IoError);
  EXPECT_EQ(read_file(folder / "f").size(), 4U);
}

TEST(PublishFile, StepsAsideForATemporaryFileThatIsThere) {
  const TemporaryFolder folder;
  publish_file(folder / ("f.tmp-" + std::to_string(getpid()) + "-0"), test::as_bytes("theirs"));

  publish_file(folder / "f", test::as_bytes("ours"));

  EXPECT_EQ(files_in(folder), 2U);
}

}  // namespace
}  // namespace spjit
