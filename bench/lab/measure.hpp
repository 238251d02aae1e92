#pragma once

/// @file
/// Measurements of each kind under one condition, for what tests make up too.

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/convolution/conv_operands.hpp"
#include "bench/lab/kind.hpp"
#include "bench/lab/ways.hpp"
#include "bench/layer/way.hpp"
#include "bench/model/layer_operands.hpp"
#include "bench/model/network.hpp"

namespace spjit::bench {

/// Networks that there are files for, or with --quick a small generated one.
[[nodiscard]] std::vector<Network> networks_of(const LabOptions& options);

/// A case a shape, in the order of the network. Every result is compared with float64, and its bits
/// with those of the first way that computes the same. If the first way fails, none is timed.
[[nodiscard]] std::vector<Case> measure_comparison(const std::vector<NetworkLayer>& layers,
                                                   const std::vector<Way>& ways,
                                                   const Conditions& conditions,
                                                   const LabOptions& options);

/// All layers as one case. Missing peers are left out, as below.
[[nodiscard]] Case measure_model(const std::vector<std::unique_ptr<side_by_side::Peer>>& peers,
                                 LayerOperands& operands, const Conditions& conditions,
                                 const SequenceOptions& timing);

/// A case a shape, in the order of the network. In a sequence spjit computes the layers that a
/// library cannot compute, which have no timing of that library.
[[nodiscard]] std::vector<Case> measure_convolutions(
    const std::vector<std::unique_ptr<ConvPeer>>& peers, ConvOperands& operands,
    const Conditions& conditions, const LabOptions& options);

/// A case of the layers of one shape without timings.
[[nodiscard]] Case conv_case(const std::vector<ConvLayer>& layers, const LayerGroup& group,
                             std::int64_t batch);

}  // namespace spjit::bench
