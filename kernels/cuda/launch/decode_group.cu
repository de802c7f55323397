// SPDX-License-Identifier: Apache-2.0
//
// From the operands of a group to kernel parameters: the blocks of its GEMMs,
// one behind the other, each filled up to whole clusters.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/launch/decode_group.h"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/group_table.cuh"

namespace qgemm::cuda {
namespace {

using GroupTable = KernelTable<DecodeGroupKernel>;

template <typename T>
const GroupTable& GroupTableOf(int codes) {
  using Table = const GroupTable& (*)();
  constexpr Table kTables[] = {DecodeGroupKernels<kTernaryCodes, T>,
                               DecodeGroupKernels<2, T>,
                               DecodeGroupKernels<3, T>,
                               DecodeGroupKernels<4, T>,
                               DecodeGroupKernels<5, T>,
                               DecodeGroupKernels<kNumberCodes, T>};
  return kTables[codes - kTernaryCodes]();
}

template <typename T>
const GroupTable& PartsTableOf(int codes) {
  using Table = const GroupTable& (*)();
  constexpr Table kTables[] = {DecodePartsKernels<kTernaryCodes, T>,
                               DecodePartsKernels<2, T>,
                               DecodePartsKernels<3, T>,
                               DecodePartsKernels<4, T>,
                               DecodePartsKernels<5, T>,
                               DecodePartsKernels<kNumberCodes, T>};
  return kTables[codes - kTernaryCodes]();
}

// The kernel for a layer, or null.
DecodeGroupKernel FindGroup(const TileLayout& layout, FloatType a_type,
                            int choice) {
  const GroupTable& table = a_type == FloatType::kBFloat16
                                ? GroupTableOf<__nv_bfloat16>(layout.codes)
                                : GroupTableOf<__half>(layout.codes);
  return table.Find(layout, a_type, choice);
}
DecodeGroupKernel FindParts(const TileLayout& layout, FloatType a_type,
                            int choice) {
  const GroupTable& table = a_type == FloatType::kBFloat16
                                ? PartsTableOf<__nv_bfloat16>(layout.codes)
                                : PartsTableOf<__half>(layout.codes);
  return table.Find(layout, a_type, choice);
}

EpilogueMatrix MatrixOf(const DeviceMatrix& matrix) {
  EpilogueMatrix made = {};
  made.elements = static_cast<uint8_t*>(matrix.elements);
  made.type = matrix.type;
  made.width = matrix.width;
  made.row_bytes =
      matrix.one_row ? 0 : int64_t{matrix.width} * SizeOf(matrix.type);
  return made;
}

// Four columns of it stand on a multiple of their size.
bool IsLegal(const DeviceMatrix& matrix, int64_t n) {
  return matrix.elements == nullptr || matrix.width == 1 ||
         (matrix.width == n &&
          reinterpret_cast<uintptr_t>(matrix.elements) % 16 == 0);
}

bool IsLegal(const DecodeGroupGemm& gemm, int place,
             const GemmOperands& first) {
  const GemmOperands& operands = gemm.operands;
  const int64_t n = operands.weights.layout.n;
  if (!IsLegal(operands) || operands.m > kDecodeBlockM ||
      n % kGroupColumns != 0 ||
      reinterpret_cast<uintptr_t>(operands.c) % 16 != 0 ||
      operands.m != first.m || operands.a != first.a ||
      GroupKernelOf(operands.weights.layout, operands.a_type) !=
          GroupKernelOf(first.weights.layout, first.a_type) ||
      gemm.op_count < 0 || gemm.op_count > kMaxEpilogueOps ||
      gemm.awaited >= place || gemm.pair >= place) {
    return false;
  }
  return std::all_of(gemm.ops, gemm.ops + gemm.op_count,
                     [n](const GroupedOp& op) {
                       return IsLegal(op.other, n) && IsLegal(op.result, n);
                     });
}

bool IsLegal(const DecodeGroupOperands& operands) {
  if (operands.count < 1 || operands.count > kMaxGroupedGemms) return false;
  const GemmOperands& first = operands.gemms[0].operands;
  for (int i = 0; i < operands.count; ++i) {
    if (!IsLegal(operands.gemms[i], i, first)) return false;
  }
  const DeviceRowOp& norm = operands.norm;
  return norm.x.elements == nullptr ||
         (operands.arrived == nullptr && ComputesNorms(first.weights.layout) &&
          norm.x.width == first.weights.layout.k &&
          (norm.group == 0 || norm.group == norm.x.width) &&
          norm.result.elements == first.a);
}

DeviceRow RowOf(const DeviceMatrix& matrix) {
  return {static_cast<uint8_t*>(matrix.elements), matrix.type, matrix.width};
}

GroupNorm NormOf(const DecodeGroupOperands& operands, unsigned blocks) {
  GroupNorm made = {};
  const DeviceRowOp& norm = operands.norm;
  if (norm.x.elements == nullptr) return made;
  made.first_row = {norm.kind == OpKind::kLayerNorm,
                    norm.eps,
                    norm.x.width,
                    RowOf(norm.x),
                    RowOf(norm.norm_weight),
                    RowOf(norm.norm_bias),
                    RowOf(norm.result)};
  made.x_row_bytes = int64_t{norm.x.width} * SizeOf(norm.x.type);
  made.result_row_bytes = int64_t{norm.x.width} * SizeOf(norm.result.type);
  made.rows = static_cast<int>(operands.gemms[0].operands.m);
  made.rehearses = norm.x.width <= kMaxRehearsedWidth;
  made.blocks = static_cast<int>(blocks);
  made.done = operands.counters;
  return made;
}

// The ops of an epilogue. `pair` is the place of a GEMM whose blocks multiply
// this one too, or -1.
void SetOps(const DecodeGroupGemm& gemm, int pair, GroupedGemm& made) {
  made.ops.count = gemm.op_count;
  for (int i = 0; i < gemm.op_count; ++i) {
    const GroupedOp& op = gemm.ops[i];
    made.ops.ops[i] = {{op.kind, op.activation, op.low, op.high},
                       pair >= 0 && op.awaits,
                       MatrixOf(op.other),
                       op.result.type,
                       MatrixOf(op.result)};
  }
}

// From the operands of a group to one launch.
class GroupLaunch {
 public:
  GroupLaunch(const Device& device, const DecodeGroupOperands& operands)
      : device_(device),
        operands_(operands),
        layout_(LayoutOf(0)),
        choice_(MTileChoice(operands.gemms[0].operands.m)),
        kernel_(FindParts(layout_, operands.gemms[0].operands.a_type, choice_)),
        in_parts_(kernel_ != nullptr && GainsByParts()) {
    if (in_parts_) return;
    kernel_ = FindGroup(layout_, operands.gemms[0].operands.a_type, choice_);
  }

  GroupCount CountOf(int place) const {
    const bool is_paired =
        in_parts_ && IsPaired(place) && operands_.gemms[place].pair >= 0;
    if (is_paired) return {};
    return {CounterOf(place), BlocksOf(place)};
  }

  cudaError_t Launch(cudaStream_t stream) {
    if (kernel_ == nullptr) return cudaErrorInvalidValue;
    group_.count = operands_.count;
    group_.arrivals = {operands_.arrived,
                       static_cast<unsigned>(operands_.gemms[0].operands.m)};
    group_.cluster = 1;
    for (int i = 0; i < operands_.count && !in_parts_; ++i) {
      group_.cluster =
          std::max(group_.cluster, LayoutOf(i).tile_config.split_k);
    }
    for (int i = 0; i < operands_.count; ++i) {
      const cudaError_t error = Add(i);
      if (error != cudaSuccess) return error;
    }
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3(blocks_);
    launch.blockDim = dim3(static_cast<unsigned>(threads_));
    launch.dynamicSmemBytes = shared_bytes_ + kGroupScratchBytes;
    launch.stream = stream;
    const LaunchAttributes attributes(group_.cluster, launch);
    return cudaLaunchKernelEx(&launch, kernel_, group_);
  }

 private:
  const TileLayout& LayoutOf(int place) const {
    return operands_.gemms[place].operands.weights.layout;
  }

  // A part has as many stages for each warp that alternates along K.
  static bool CutsEvenly(const TileLayout& layout, int parts) {
    return layout.k_tiles % (parts * layout.tile_config.k_warps) == 0;
  }

  bool IsPaired(int place) const {
    return operands_.gemms[place].pair >= 0 &&
           LayoutOf(place).tile_config.split_k == 1 &&
           CutsEvenly(LayoutOf(place), 1);
  }

  // True if there is something to put together, and blocks that add up parts of
  // K have no more to do than others.
  bool GainsByParts() const {
    if (operands_.count == 1) return false;
    bool gains = false;
    int64_t most_tiles = 0;
    int64_t most_tiles_in_parts = 0;
    for (int i = 0; i < operands_.count; ++i) {
      const TileLayout& layout = LayoutOf(i);
      const int split = layout.tile_config.split_k;
      if (split > kMaxParts || (split > 1 && !CutsEvenly(layout, split))) {
        return false;
      }
      gains = gains || split > 1 || IsPaired(i);
      const int64_t tiles = layout.k_tiles * layout.tile_config.n_tiles;
      most_tiles = std::max(most_tiles, tiles / split);
      most_tiles_in_parts = std::max(most_tiles_in_parts, tiles);
    }
    return gains && most_tiles_in_parts <= most_tiles;
  }

  cudaError_t Add(int place) {
    const DecodeGroupGemm& gemm = operands_.gemms[place];
    GemmOperands operands = gemm.operands;
    const TileConfig& config = LayoutOf(place).tile_config;
    const int pair = in_parts_ && IsPaired(place) ? gemm.pair : -1;
    GroupedGemm& made = group_.gemms[place];
    made.parts = in_parts_ ? config.split_k : 1;
    made.pair = -1;
    if (in_parts_) operands.weights.layout.tile_config.split_k = 1;
    DecodeLaunch set_up;
    const int sums = pair >= 0 || PairedWith(place) ? 2 : made.parts;
    const cudaError_t error =
        SetUp(device_, operands, kMTileCounts[choice_] * 8, sums, set_up);
    if (error != cudaSuccess) return error;
    made.gemm = set_up.args;
    made.ops.c_type = gemm.operands.c_type;
    made.first_block = static_cast<int>(blocks_);
    SetOps(gemm, pair, made);
    if (place == 0) group_.norm = NormOf(operands_, set_up.blocks);
    if (pair >= 0) {
      Pair(place, group_.gemms[pair]);
      return cudaSuccess;
    }
    if (gemm.is_counted) made.done = CounterOf(place);
    Await(gemm, made);
    blocks_ += RoundUp(set_up.blocks, static_cast<unsigned>(group_.cluster));
    threads_ = std::max(threads_, set_up.threads);
    shared_bytes_ = std::max(shared_bytes_, set_up.shared_bytes);
    return cudaSuccess;
  }

  bool PairedWith(int place) const {
    for (int i = place + 1; i < operands_.count; ++i) {
      if (in_parts_ && IsPaired(i) && operands_.gemms[i].pair == place) {
        return true;
      }
    }
    return false;
  }

  // Lets the blocks of `first` multiply the GEMM of that place as well.
  void Pair(int place, GroupedGemm& first) {
    first.pair = place;
    if (!operands_.gemms[first_place(first)].ends_for_pair) return;
    if (first.ops.count == 0) {
      first.gemm.c = nullptr;
    } else {
      first.ops.ops[first.ops.count - 1].result.elements = nullptr;
    }
  }

  int first_place(const GroupedGemm& gemm) const {
    return static_cast<int>(&gemm - group_.gemms);
  }

  void Await(const DecodeGroupGemm& gemm, GroupedGemm& made) {
    if (gemm.awaited < 0) return;
    GroupedGemm& awaited = group_.gemms[gemm.awaited];
    awaited.done = CounterOf(gemm.awaited);
    made.awaited = awaited.done;
    made.awaited_count = BlocksOf(gemm.awaited);
  }

  unsigned* CounterOf(int place) const {
    return operands_.counters + 1 + place;
  }

  unsigned BlocksOf(int place) const {
    const TileConfig& config = LayoutOf(place).tile_config;
    return static_cast<unsigned>(config.n_blocks *
                                 (in_parts_ ? 1 : config.split_k));
  }

  const Device& device_;
  const DecodeGroupOperands& operands_;
  const TileLayout& layout_;  // of the first GEMM
  const int choice_;
  DecodeGroupKernel kernel_;
  const bool in_parts_;
  GroupArguments group_ = {};
  unsigned blocks_ = 0;
  int threads_ = 0;
  int shared_bytes_ = 0;
};

}  // namespace

bool HasDecodeGroups(const Device& device) {
  return device.encode_tensor_map != nullptr && device.traits.has_clusters() &&
         device.traits.shared_bytes_per_block >=
             kMaxBlockBytes + kGroupScratchBytes;
}

int64_t GroupKernelOf(const TileLayout& layout, FloatType a_type) {
  if (FindGroup(layout, a_type, 0) == nullptr) {
    return FusionFacts::kNoKernel;
  }
  const int64_t kind =
      layout.codes * kScaleKinds + static_cast<int>(layout.scale_kind);
  return (kind * 2 + layout.has_zeros) * 2 +
         (a_type == FloatType::kBFloat16 ? 1 : 0);
}

bool ComputesNorms(const TileLayout& layout) {
  const TileConfig& config = layout.tile_config;
  return NGroups(config.n_tiles) * config.k_warps * kGroupWarps * 32 ==
         kGroupNormThreads;
}

GroupCount CounterOf(const Device& device, const DecodeGroupOperands& operands,
                     int place) {
  return GroupLaunch(device, operands).CountOf(place);
}

cudaError_t PrepareDecodeGroup(const Device& device) {
  if (!HasDecodeGroups(device)) return cudaSuccess;
  for (const int codes : kCodeKinds) {
    for (const GroupTable* table :
         {&GroupTableOf<__half>(codes), &GroupTableOf<__nv_bfloat16>(codes),
          &PartsTableOf<__half>(codes), &PartsTableOf<__nv_bfloat16>(codes)}) {
      const cudaError_t error =
          table->AllowSharedMemory(kMaxBlockBytes + kGroupScratchBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchDecodeGroup(const Device& device,
                              const DecodeGroupOperands& operands,
                              cudaStream_t stream) {
  if (!HasDecodeGroups(device) || !IsLegal(operands)) {
    return cudaErrorInvalidValue;
  }
  return GroupLaunch(device, operands).Launch(stream);
}

}  // namespace qgemm::cuda
