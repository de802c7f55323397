// SPDX-License-Identifier: Apache-2.0
//
// Drawing blocks, and figures of weighted blocks.

#include "loadtest/report/block_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

namespace qgemm {
namespace {

constexpr int kResamples = 2000;
constexpr uint64_t kSeed = 1;
// Of the normal distribution: 95 % lie within.
constexpr double kNormalQuantile = 1.959963984540054;

// Cells are as wide as their values' 64th part or less.
constexpr int kCellBits = 7;
constexpr int64_t kCellsAnOctave = int64_t{1} << (kCellBits - 1);
constexpr double kCellWidth = 1.0 / kCellsAnOctave;

int64_t CellOf(int64_t value) {
  const int width = 64 - __builtin_clzll(static_cast<uint64_t>(value) | 1);
  const int shift = std::max(0, width - kCellBits);
  return shift * kCellsAnOctave + (value >> shift);
}

double LowestOf(int64_t cell) {
  if (cell < 2 * kCellsAnOctave) return static_cast<double>(cell);
  const int64_t shift = cell / kCellsAnOctave - 1;
  const int64_t mantissa = cell - shift * kCellsAnOctave;
  return std::ldexp(static_cast<double>(mantissa), static_cast<int>(shift));
}

double Dot(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Of Student's t: 95 % lie within.
// Source: Abramowitz and Stegun, 26.7.5; within 0.3 % from 4 degrees on.
double StudentQuantile(double degrees) {
  const double z = kNormalQuantile;
  const double z2 = z * z;
  const double first = z * (z2 + 1) / 4;
  const double second = z * ((5 * z2 + 16) * z2 + 3) / 96;
  const double third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  return z + first / degrees + second / (degrees * degrees) +
         third / (degrees * degrees * degrees);
}

// How many standard deviations are to lie within, if there are `blocks`.
double WidenedQuantile(size_t blocks) {
  const double count = static_cast<double>(blocks);
  return StudentQuantile(count - 1) * std::sqrt(count / (count - 1));
}

// The share of the normal distribution above that many.
double TailShare(double deviations) {
  return std::erfc(deviations / std::sqrt(2)) / 2;
}

// The variance of the mean of a figure's blocks if each is anywhere in its
// step, as a share of the figure squared.
double StepVariance(const BlockStatistic& statistic) {
  return statistic.step * statistic.step /
         (12 * static_cast<double>(statistic.blocks));
}

// Adds an independent deviation to the distance between `bound` and 1, both
// being logarithmic.
double Widen(double bound, double deviation) {
  const double distance = std::abs(std::log(bound));
  return std::exp(std::hypot(distance, deviation) - distance);
}

// How often each block is drawn.
void DrawWeights(std::mt19937_64& random, std::vector<double>* weights) {
  std::fill(weights->begin(), weights->end(), 0);
  for (size_t i = 0; i < weights->size(); ++i) {
    (*weights)[random() % weights->size()] += 1;
  }
}

// Ratios of resamples, ascending; resamples without one are left out.
std::vector<double> ResampledRatios(const BlockStatistic& a,
                                    const BlockStatistic& b) {
  std::mt19937_64 random(kSeed);
  std::vector<double> weights_a(a.blocks);
  std::vector<double> weights_b(b.blocks);
  std::vector<double> ratios;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    DrawWeights(random, &weights_a);
    DrawWeights(random, &weights_b);
    const double of_a = a.value(weights_a);
    const double of_b = b.value(weights_b);
    if (of_a > 0 && of_b > 0) ratios.push_back(of_b / of_a);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

double OfAllBlocks(const BlockStatistic& statistic) {
  return statistic.value(std::vector<double>(statistic.blocks, 1));
}

}  // namespace

std::optional<RatioInterval> BootstrapRatio(const BlockStatistic& a,
                                            const BlockStatistic& b) {
  const size_t fewest = std::min(a.blocks, b.blocks);
  if (fewest < kFewestBlocks) return std::nullopt;
  const double of_a = OfAllBlocks(a);
  const double of_b = OfAllBlocks(b);
  if (!(of_a > 0 && of_b > 0)) return std::nullopt;
  const std::vector<double> ratios = ResampledRatios(a, b);
  if (ratios.empty()) return std::nullopt;
  const double deviations = WidenedQuantile(fewest);
  const size_t left_out = static_cast<size_t>(
      TailShare(deviations) * static_cast<double>(ratios.size()));
  const double hidden =
      deviations * std::sqrt(StepVariance(a) + StepVariance(b));
  const double low = ratios[left_out] / (of_b / of_a);
  const double high = ratios[ratios.size() - 1 - left_out] / (of_b / of_a);
  return RatioInterval{low / Widen(low, hidden), high * Widen(high, hidden)};
}

BlockValues::BlockValues(absl::Span<const Histogram> blocks) {
  std::map<int64_t, std::vector<double>> cells;
  for (size_t block = 0; block < blocks.size(); ++block) {
    counts_.push_back(static_cast<double>(blocks[block].count()));
    sums_.push_back(blocks[block].sum());
    blocks[block].ForEachBucket([&](const Histogram::Bucket& bucket) {
      std::vector<double>& cell = cells[CellOf(bucket.lowest)];
      cell.resize(blocks.size());
      cell[block] += static_cast<double>(bucket.count);
    });
  }
  std::vector<double> so_far(blocks.size());
  for (const auto& [index, cell] : cells) {
    lowest_.push_back(LowestOf(index));
    beyond_.push_back(LowestOf(index + 1));
    for (size_t i = 0; i < cell.size(); ++i) so_far[i] += cell[i];
    cumulative_.insert(cumulative_.end(), so_far.begin(), so_far.end());
  }
}

BlockStatistic BlockValues::Count() const {
  return {blocks(),
          [this](absl::Span<const double> weights) {
            return Dot(counts_, weights);
          },
          /*step=*/0};
}

BlockStatistic BlockValues::Mean() const {
  BlockStatistic mean = QuotientOfSums(sums_, counts_);
  mean.step = kCellWidth;
  return mean;
}

BlockStatistic BlockValues::Percentile(double percent) const {
  return {blocks(),
          [this, percent](absl::Span<const double> weights) {
            return PercentileOf(percent, weights);
          },
          kCellWidth};
}

double BlockValues::CountUpTo(size_t cell,
                              absl::Span<const double> weights) const {
  return Dot(absl::MakeConstSpan(cumulative_)
                 .subspan(cell * weights.size(), weights.size()),
             weights);
}

double BlockValues::PercentileOf(double percent,
                                 absl::Span<const double> weights) const {
  const double rank = percent / 100 * Dot(counts_, weights);
  if (lowest_.empty() || rank <= 0) return 0;
  size_t first = 0;
  size_t last = lowest_.size() - 1;
  while (first < last) {
    const size_t middle = (first + last) / 2;
    if (CountUpTo(middle, weights) >= rank) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  const double before = first == 0 ? 0 : CountUpTo(first - 1, weights);
  const double within = CountUpTo(first, weights) - before;
  const double share = within > 0 ? (rank - before) / within : 1;
  return lowest_[first] +
         std::min(share, 1.0) * (beyond_[first] - lowest_[first]);
}

BlockStatistic QuotientOfSums(absl::Span<const double> numerators,
                              absl::Span<const double> denominators) {
  return {
      numerators.size(),
      [numerators = std::vector<double>(numerators.begin(), numerators.end()),
       denominators =
           std::vector<double>(denominators.begin(), denominators.end())](
          absl::Span<const double> weights) {
        const double below = Dot(denominators, weights);
        return below > 0 ? Dot(numerators, weights) / below : 0;
      },
      /*step=*/0};
}

}  // namespace qgemm
