// SPDX-License-Identifier: Apache-2.0
//
// A batch is cut into slabs of rows that fit in memory, a slab's tiles into
// items that threads draw. Neither cut changes a bit of any result.

#include "kernels/cpu/batch_runner.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/result_row.h"
#include "kernels/cpu/support.h"

namespace qgemm {
namespace {

// Weights of one item: small enough to stay in a core's second-level cache
// while all rows pass over them.
constexpr int64_t kItemBytes = int64_t{512} << 10;
// Items a thread, where there are tiles enough: evens out their speeds.
constexpr int64_t kItemsPerThread = 8;

int64_t TilesPerItem(const PackedLayout& layout, int threads) {
  const int64_t by_bytes = kItemBytes / layout.tile_code_bytes;
  const int64_t by_threads = layout.tiles / (threads * kItemsPerThread);
  return std::max<int64_t>(1, std::min(by_bytes, by_threads));
}

}  // namespace

absl::Status BatchRunner::Run(const GemmBatch& batch) {
  const auto& weights = static_cast<const CpuWeights&>(*batch.weights);
  choice_ = Choose(table_, KeyOf(weights.traits(), batch.signature.mode));
  RowSource source{batch.signature, table_.half_conversions, weights.k(),
                   weights.permutation()};
  ListRows(batch, weights.k());
  const int64_t slab = PreparedRows::RowsThatFit(source);
  for (int64_t first = 0; first < rows_.size(); first += slab) {
    RETURN_IF_ERROR(RunSlab(weights, source,
                            absl::MakeConstSpan(rows_).subspan(first, slab)));
  }
  return absl::OkStatus();
}

void BatchRunner::ListRows(const GemmBatch& batch, int64_t k) {
  rows_.clear();
  const int64_t a_bytes = k * SizeOf(batch.signature.a_type);
  const int64_t c_bytes = batch.weights->n() * SizeOf(batch.signature.c_type);
  for (const RowSegment& segment : batch.segments) {
    for (int64_t row = 0; row < segment.rows; ++row) {
      rows_.push_back({segment.a + row * a_bytes, segment.c + row * c_bytes});
    }
  }
}

absl::Status BatchRunner::RunSlab(const CpuWeights& weights,
                                  const RowSource& source,
                                  absl::Span<const Row> rows) {
  RETURN_IF_ERROR(prepared_.Reset(source, rows.size()));
  pool_.ParallelFor(rows.size(), [this, rows](int64_t row) {
    prepared_.Prepare(row, rows[row].a);
  });
  const int64_t tiles = weights.layout().tiles;
  const int64_t per_item = TilesPerItem(weights.layout(), threads());
  pool_.ParallelFor(CeilDiv(tiles, per_item), [&](int64_t item) {
    const int64_t begin = item * per_item;
    MultiplyTiles(weights, source.signature,
                  {begin, std::min(begin + per_item, tiles)}, rows);
  });
  return absl::OkStatus();
}

void BatchRunner::MultiplyTiles(const CpuWeights& weights,
                                const MatmulSignature& signature,
                                const TileRange& tiles,
                                absl::Span<const Row> rows) const {
  const double factor = signature.mode == ComputeMode::kA8
                            ? weights.integer_factor()
                            : weights.float_factor();
  alignas(64) float sums[kMaxMr * kTileRows];
  for (int64_t first = 0; first < rows.size();) {
    const int64_t left = rows.size() - first;
    const Microkernel& kernel =
        *choice_.by_rows[std::min<int64_t>(left, kMaxMr) - 1];
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      TileArgs args = weights.ArgsOfTile(tile);
      prepared_.SetArgs(first, args);
      args.sums = sums;
      kernel.run(&args);
      const int64_t n = tile * kTileRows;
      const int64_t count = std::min<int64_t>(kTileRows, weights.n() - n);
      for (int r = 0; r < kernel.mr; ++r) {
        const ResultRow result{signature.c_type, table_.half_conversions,
                               factor * prepared_.factor(first + r),
                               weights.bias().empty()
                                   ? absl::Span<const float>()
                                   : weights.bias().subspan(n, count)};
        StoreResults(result, absl::MakeConstSpan(sums + r * kTileRows, count),
                     rows[first + r].c + n * SizeOf(signature.c_type));
      }
    }
    first += kernel.mr;
  }
}

}  // namespace qgemm
