// SPDX-License-Identifier: Apache-2.0
//
// The weights of a layer, from a file or made at random, as the upload that
// options describe; `load` and both --verify share them.

#ifndef QGEMM_CLI_LAYER_SOURCE_H_
#define QGEMM_CLI_LAYER_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/tensor_files/tensor_file.h"
#include "flags/command_line.h"
#include "qgemm/weights.h"

namespace qgemm::cli {

// Bell-shaped values of the given standard deviation, the same on every
// machine: sums of four uniform ones, so that none is further out than 3.5
// deviations.
std::vector<float> RandomValues(int64_t count, float deviation, uint64_t seed);

struct RandomShape {
  int64_t k = 0;
  int64_t n = 0;
};

// The side that quantizes a dense tensor.
enum class Quantizer { kClient, kServer };

struct LayerOptions {
  std::string file;                   // a tensor file, or
  std::optional<RandomShape> random;  // random weights
  int64_t seed = 1;
  std::string tensor;
  // kbit2..kbit5, q4_0, ternary, int4 or dense; empty: the tensor's own.
  std::string format;
  Quantizer quantizer = Quantizer::kClient;
  int64_t group_size = 128;
  bool asymmetric = false;
  std::optional<ScaleType> scale_type;  // nullopt: the format's default

  // Adds all of them but `file`; this must outlive the parsing.
  void AddTo(CLI::App* app);
  // Adds those that say how the weights are made into an upload.
  void AddFormatTo(CLI::App* app);
  // INVALID_ARGUMENT if the options contradict each other; reads no file.
  absl::Status Check() const;
};

// The layer that `text` stands for: FILE, FILE#TENSOR or random:KxN:SEED. All
// else is that of `shared`. Errors: INVALID_ARGUMENT.
absl::StatusOr<LayerOptions> ReadLayer(const std::string& text,
                                       const LayerOptions& shared);

// A layer ready to be uploaded; holds the file or bytes that its stream reads.
class LayerSource {
 public:
  // Reads or makes the weights and, if asked to, quantizes them.
  static absl::StatusOr<std::unique_ptr<LayerSource>> Open(
      const LayerOptions& options);

  // Valid as long as the source.
  const WeightsStream& stream() const { return stream_; }

 private:
  LayerSource() = default;

  absl::Status ReadFile(const LayerOptions& options);
  void MakeRandom(const LayerOptions& options);
  absl::Status MakeStream(const LayerOptions& options);
  absl::Status PassThrough();
  absl::Status StreamFile(const WeightsSpec& spec);
  absl::Status QuantizeHere(const LayerOptions& options);
  absl::Status SendDense(const LayerOptions& options);

  std::unique_ptr<TensorFile> file_;  // null: random weights
  TensorMatrix matrix_;               // of file_, or the shape of values_
  std::vector<float> values_;
  EncodedWeights encoded_;
  WeightsStream stream_;
};

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_LAYER_SOURCE_H_
