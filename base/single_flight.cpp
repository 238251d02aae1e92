#include "base/single_flight.hpp"

#include "spjit/error.hpp"

namespace spjit {

std::function<void()> repeat_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CompileFailed& failed) {
    return [message = std::string(failed.what()), log = failed.log()] {
      throw CompileFailed(message, log);
    };
  } catch (const VerificationFailed& failed) {
    return [message = std::string(failed.what())] { throw VerificationFailed(message); };
  } catch (const NotSupported& failed) {
    return [message = std::string(failed.what())] { throw NotSupported(message); };
  } catch (const InvalidArgument& failed) {
    return [message = std::string(failed.what())] { throw InvalidArgument(message); };
  } catch (const DeviceError& failed) {
    return [message = std::string(failed.what()), code = failed.code()] {
      throw DeviceError(message, code);
    };
  } catch (...) {
    return {};
  }
}

}  // namespace spjit
