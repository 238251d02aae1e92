#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "spjit/error.hpp"
#include "spjit/matrix.hpp"

namespace spjit::test {

/// Where the real matrices are; the folder may be absent.
inline std::filesystem::path data_folder() {
  if (const char* folder = std::getenv("SPJIT_TEST_DATA"); folder != nullptr) {
    return folder;
  }
  return std::filesystem::path(SPJIT_SOURCE_DIR) / ".." / "shared" / "data";
}

/// The message of the `Expected` that `action` throws; a failure if it throws none or another type.
template <typename Expected, typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(Expected)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A folder of its own for each test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "." + info->name();
    for (char& c : name) {
      c = c == '/' ? '_' : c;
    }
    path_ = std::filesystem::path(testing::TempDir()) / ("spjit-" + name);
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& file) const {
    return path_ / file;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The 5 x 5 matrix of the hand-made cases: an empty row (1), a full row (3), an explicit zero at
/// (4, 0).
inline CsrMatrix five_by_five() {
  CsrMatrix matrix;
  matrix.rows = 5;
  matrix.cols = 5;
  matrix.row_ptrs = {0, 2, 2, 3, 8, 9};
  matrix.col_idxs = {0, 3, 2, 0, 1, 2, 3, 4, 0};
  matrix.values = {1, -2, 0.5F, 3, 4, 5, 6, 7, 0};
  return matrix;
}

}  // namespace spjit::test
