#pragma once

/// @file
/// The circuit breakers of this process, one for each server.

#include <memory>

#include "runtime/cache/circuit_breaker.hpp"

namespace spjit {

struct RemoteSettings;

/// The breaker that all share who ask the same server in the same way: a program with a Compiler a
/// layer pays the deadlines of a dead server once. Another URL, deadline, certificate or credential
/// is another way, which may work. A child of fork() goes on with its parent's. Thread-safe.
[[nodiscard]] std::shared_ptr<CircuitBreaker> breaker_of(const RemoteSettings& settings);

}  // namespace spjit
