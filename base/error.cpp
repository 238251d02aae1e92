#include "spjit/error.hpp"

#include "base/printable.hpp"

namespace spjit {

Error::Error(const std::string& message) : std::runtime_error(one_line(message)) {}

}  // namespace spjit
