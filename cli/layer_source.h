// SPDX-License-Identifier: Apache-2.0
//
// Where the weights of a layer come from and what they become: the flags that
// `load` and `gemm --verify` share, and the upload they describe.

#ifndef QGEMM_CLI_LAYER_SOURCE_H_
#define QGEMM_CLI_LAYER_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flag_set.h"
#include "cli/tensor_files/tensor_file.h"
#include "kernels/formats/weights_encoder.h"
#include "qgemm/weights.h"

namespace qgemm {

struct LayerFlags {
  std::string file;    // a tensor file, or
  std::string random;  // KxN
  int64_t seed = 1;    // of random weights
  std::string tensor;
  // kbit2..kbit5, q4_0, ternary, int4 or dense; empty: the tensor's own.
  std::string format;
  std::string where = "client";
  int64_t group_size = 128;
  bool asymmetric = false;
  std::string scale_type;

  // All of them but `file`.
  void AddTo(FlagSet* flags);
  // INVALID_ARGUMENT if the flags contradict each other; reads no file.
  absl::Status Check() const;
};

// A layer ready to be uploaded; holds what its stream reads.
class LayerSource {
 public:
  // Reads or makes the weights and, if asked to, quantizes them.
  static absl::StatusOr<std::unique_ptr<LayerSource>> Open(
      const LayerFlags& flags);

  // Valid as long as the source.
  const WeightsStream& stream() const { return stream_; }

 private:
  LayerSource() = default;

  absl::Status ReadFile(const LayerFlags& flags);
  void MakeRandom(const LayerFlags& flags);
  absl::Status MakeStream(const LayerFlags& flags);
  absl::Status PassThrough();
  absl::Status QuantizeHere(const LayerFlags& flags);
  absl::Status SendDense(const LayerFlags& flags);

  std::unique_ptr<TensorFile> file_;
  std::vector<float> values_;
  TensorMatrix matrix_;  // into file_ or values_
  EncodedWeights encoded_;
  WeightsStream stream_;
};

}  // namespace qgemm

#endif  // QGEMM_CLI_LAYER_SOURCE_H_
