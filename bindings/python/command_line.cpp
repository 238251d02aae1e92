// `python -m spjit`.

#include "tools/command_line.hpp"

extern "C" __attribute__((visibility("default"))) int spjit_python_main(int argc,
                                                                        const char* const* argv) {
  return spjit::cli::run_command_line(argc, argv);
}
