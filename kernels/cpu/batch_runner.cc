// SPDX-License-Identifier: Apache-2.0
//
// A batch is cut into blocks of rows that fit in memory, and the layer's tiles
// into items that threads draw. Neither cut changes a bit of any result.

#include "kernels/cpu/batch_runner.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/row_conversion.h"
#include "kernels/cpu/support.h"

namespace qgemm::cpu {
namespace {

// Weights of one item: small enough to stay in a core's L2 while all rows pass
// over them.
constexpr int64_t kItemBytes = int64_t{512} << 10;
// Items for each thread, if there are tiles enough: evens out their speeds.
constexpr int64_t kItemsPerThread = 8;
// Bytes of weights, times rows, that are not worth another item: some
// microseconds of work, as long as it takes to wake a thread.
constexpr int64_t kLeastItemWork = int64_t{32} << 10;

// As many as a call takes at least, if memory is the bound; an even number
// where calls take more than one: these load activations for two.
int64_t TilesPerItem(const PackedLayout& layout, int threads, int64_t rows,
                     absl::Span<const RowStrip> strips) {
  const int64_t by_work = kLeastItemWork / (layout.tile_code_bytes * rows);
  const int64_t by_threads =
      std::max(layout.tiles / (threads * kItemsPerThread), by_work);
  int64_t at_once = 1;
  for (const RowStrip& strip : strips) {
    at_once = std::max<int64_t>(at_once, strip.kernel->tiles);
  }
  const int64_t by_bytes =
      std::max(kItemBytes / layout.tile_code_bytes, at_once);
  return RoundUp(std::max<int64_t>(1, std::min(by_bytes, by_threads)),
                 at_once > 1 ? 2 : 1);
}

}  // namespace

absl::Status BatchRunner::Run(const GemmBatch& batch) {
  const auto& weights = static_cast<const CpuWeights&>(*batch.weights);
  const int64_t a_bytes = weights.k() * SizeOf(batch.signature.a_type);
  const int64_t c_bytes = weights.n() * SizeOf(batch.signature.c_type);
  rows_.clear();
  for (const RowSegment& segment : batch.segments) {
    for (int64_t row = 0; row < segment.rows; ++row) {
      rows_.push_back({segment.a + row * a_bytes, segment.c + row * c_bytes,
                       segment.request_rows()});
    }
  }
  return RunRows(weights, batch.signature, rows_);
}

absl::Status BatchRunner::RunRows(const CpuWeights& weights,
                                  const MatmulSignature& signature,
                                  absl::Span<const Row> rows) {
  const FamilyChoice& choice = ChoiceOf(KeysOf(weights, signature));
  families_.clear();
  for (const Row& row : rows) {
    families_.push_back(FamilyOf(choice, row.request_rows));
  }
  RowSource source{signature, table_.half_conversions, weights.k(),
                   weights.permutation()};
  const int64_t step = PreparedRows::RowsThatFit(source);
  for (int64_t first = 0; first < rows.size(); first += step) {
    RETURN_IF_ERROR(
        RunBlock({weights, source, rows.subspan(first, step)}, choice,
                 absl::MakeConstSpan(families_).subspan(first, step)));
  }
  return absl::OkStatus();
}

const FamilyChoice& BatchRunner::ChoiceOf(const FamilyKeys& keys) {
  const auto [found, is_new] = choices_.try_emplace(keys);
  if (is_new) found->second = ChooseFamilies(table_, keys);
  return found->second;
}

absl::Status BatchRunner::RunBlock(const RowBlock& block,
                                   const FamilyChoice& choice,
                                   absl::Span<const RowFamily> families) {
  CutStrips(choice, families, strips_);
  RETURN_IF_ERROR(
      prepared_.Reset(block.source, strips_, block.weights.shape().bits));
  const absl::Span<const PreparedRows::Group> groups = prepared_.groups();
  pool_.ParallelFor(groups.size(), [&](int64_t i) {
    prepared_.Prepare(groups[i],
                      [&](int64_t row) { return block.rows[row].a; });
  });
  const int64_t tiles = block.weights.layout().tiles;
  const int64_t per_item = TilesPerItem(block.weights.layout(), threads(),
                                        block.rows.size(), strips_);
  pool_.ParallelFor(CeilDiv(tiles, per_item), [&](int64_t item) {
    const int64_t begin = item * per_item;
    const int64_t end = std::min(begin + per_item, tiles);
    for (const RowStrip& strip : strips_) {
      const int64_t at_once = strip.kernel->tiles;
      for (int64_t tile = begin; tile < end; tile += at_once) {
        MultiplyTiles(block, strip, tile, std::min(at_once, end - tile));
      }
    }
  });
  return absl::OkStatus();
}

void BatchRunner::MultiplyTiles(const RowBlock& block, const RowStrip& strip,
                                int64_t first, int64_t count) const {
  alignas(64) float sums[kMaxTiles * kMaxMr * kTileRows];
  TileArgs args =
      block.weights.ArgsOfTile(first, EntryTypeOf(block.source.signature));
  prepared_.SetArgs(strip, args);
  args.tiles = static_cast<int>(count);
  args.sums = sums;
  strip.kernel->run(&args);
  for (int64_t i = 0; i < args.tiles; ++i) {
    float* tile_sums = sums + i * strip.rows * kTileRows;
    ReplaceRowsWithoutParts(block, strip, first + i, tile_sums);
    StoreTile(block, strip, first + i, tile_sums);
  }
}

void BatchRunner::ReplaceRowsWithoutParts(const RowBlock& block,
                                          const RowStrip& strip, int64_t tile,
                                          float* sums) const {
  for (int64_t r = 0; r < strip.rows; ++r) {
    if (!prepared_.lacks_parts(strip.first + r)) continue;
    TileArgs args =
        block.weights.ArgsOfTile(tile, EntryTypeOf(block.source.signature));
    prepared_.SetArgsOfRow(strip.first + r, args);
    args.sums = sums + r * kTileRows;
    strip.single->run(&args);
  }
}

void BatchRunner::StoreTile(const RowBlock& block, const RowStrip& strip,
                            int64_t tile, const float* sums) const {
  const CpuWeights& weights = block.weights;
  const MatmulSignature& signature = block.source.signature;
  const double factor = signature.mode == ComputeMode::kA8
                            ? weights.integer_factor()
                            : weights.float_factor();
  const int64_t n = tile * kTileRows;
  const int64_t count = std::min<int64_t>(kTileRows, weights.n() - n);
  const absl::Span<const float> bias = weights.bias().empty()
                                           ? absl::Span<const float>()
                                           : weights.bias().subspan(n, count);
  for (int64_t r = 0; r < strip.rows; ++r) {
    const ResultRow result{signature.c_type, table_.half_conversions,
                           factor * prepared_.factor(strip.first + r), bias};
    StoreResults(result, absl::MakeConstSpan(sums + r * kTileRows, count),
                 block.rows[strip.first + r].c + n * SizeOf(signature.c_type));
  }
}

}  // namespace qgemm::cpu
