#include "bench/side_by_side/line_process.hpp"

#include <gtest/gtest.h>

#include <string>

#include "spjit/error.hpp"

namespace {

using spjit::side_by_side::LineProcess;

TEST(LineProcess, AnswersEveryLine) {
  LineProcess echo({"cat"});
  const std::string long_line(10'000, 'x');

  EXPECT_EQ(echo.ask("one"), "one");
  EXPECT_EQ(echo.ask(long_line), long_line);
  EXPECT_EQ(echo.ask(""), "");
}

TEST(LineProcess, LinesThatComeTogetherAreReadOneByOne) {
  LineProcess printer({"sh", "-c", "printf 'a\\nb\\n'"});

  EXPECT_EQ(printer.read_line(), "a");
  EXPECT_EQ(printer.read_line(), "b");
  EXPECT_THROW((void)printer.read_line(), spjit::Error);
}

TEST(LineProcess, AskingOneThatHasEndedIsAnError) {
  LineProcess ended({"true"});

  EXPECT_THROW((void)ended.read_line(), spjit::Error);
  EXPECT_THROW((void)ended.ask("anyone?"), spjit::Error);
}

TEST(LineProcess, AProgramThatIsNotThereIsNotSupported) {
  EXPECT_THROW(LineProcess({"/nonexistent/program"}), spjit::NotSupported);
}

}  // namespace
