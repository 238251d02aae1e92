#include "tools/commands/command_line.hpp"

int main(int argc, char** argv) { return spjit::cli::run_command_line(argc, argv); }
