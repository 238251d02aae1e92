#include "spjit/kernel.hpp"

namespace spjit {

std::string to_string(KernelKind kind) {
  switch (kind) {
    case KernelKind::unrolled:
      return "unrolled";
    case KernelKind::csr:
      return "csr";
    case KernelKind::sliced:
      return "sliced";
  }
  return "?";
}

}  // namespace spjit
