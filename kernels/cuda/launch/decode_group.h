// SPDX-License-Identifier: Apache-2.0
//
// The launch of a group of decode GEMMs: the same activations, a norm that
// makes them, columnwise ops on the products.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_DECODE_GROUP_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_DECODE_GROUP_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/row_ops.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/program_fusion.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {

// Columns of a thread of an epilogue: n is a multiple of it.
inline constexpr int64_t kGroupColumns = 4;

// A columnwise op, but for SLICE, on what stands before it in an epilogue.
struct GroupedOp {
  OpKind kind = OpKind::kAdd;
  Activation activation = Activation::kSilu;
  float low = 0;
  float high = 0;
  DeviceMatrix other;   // of ADD and MUL: as wide as the product, or 1
  bool awaits = false;  // the GEMM `awaited` makes it
  DeviceMatrix result;  // its elements are null where nobody else reads it
};

struct DecodeGroupGemm {
  GemmOperands operands;  // c is null where nobody else reads the product
  GroupedOp ops[kMaxEpilogueOps];
  int op_count = 0;
  // Place in the group of an earlier GEMM that makes an operand of `ops`, or
  // -1.
  int awaited = -1;
  // Place of the GEMM `awaited` where what it ends with is the one operand that
  // it makes, and both have one tile config and equal codebooks: its blocks may
  // multiply this GEMM too. Or -1.
  int pair = -1;
  // Nothing but the paired GEMM reads what this one ends with.
  bool ends_for_pair = false;
  // Its blocks count when their results are there (CounterOf).
  bool is_counted = false;
};

// Counters in device memory, all of them 0 before the launch: of the norm's
// rows, and of each GEMM's blocks.
inline constexpr int kGroupCounters = 1 + kMaxGroupedGemms;

struct DecodeGroupOperands {
  DecodeGroupGemm gemms[kMaxGroupedGemms];
  int count = 0;
  // RMS_NORM or LAYER_NORM of whole rows, whose result is the activations;
  // no x if there is none.
  DeviceRowOp norm;
  unsigned* counters = nullptr;  // [kGroupCounters]
  // Without a norm: counts rows of the activations as they come, from the
  // kernel before, which need not have ended then. Null: the activations are
  // there when it has.
  const unsigned* arrived = nullptr;
};

// True if the device has kernels of groups.
bool HasDecodeGroups(const Device& device);

// A number that GEMMs share that one kernel multiplies; those of one group
// must.
int64_t GroupKernelOf(const TileLayout& layout, FloatType a_type);

// True if blocks of the layer can compute norms.
bool ComputesNorms(const TileLayout& layout);

// The counter of a GEMM's blocks, and what it comes to.
struct GroupCount {
  const unsigned* counter = nullptr;  // null: the blocks of another multiply it
  unsigned blocks = 0;
};

// The count of the GEMM at `place` of operands with which LaunchDecodeGroup
// succeeds.
GroupCount CounterOf(const Device& device, const DecodeGroupOperands& operands,
                     int place);

// Once a device, which is the current one, before the first launch.
cudaError_t PrepareDecodeGroup(const Device& device);

// As LaunchDecodeGemm, for up to kDecodeBlockM rows and n a multiple of
// kGroupColumns.
// Results have the bits of the ops launched one by one. A value that the
// launch makes shares no memory with another that it reads or makes. Errors:
// cudaErrorInvalidValue.
cudaError_t LaunchDecodeGroup(const Device& device,
                              const DecodeGroupOperands& operands,
                              cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_DECODE_GROUP_H_
