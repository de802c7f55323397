// SPDX-License-Identifier: Apache-2.0
//
// The expected values come from the layer as it was written to the builder,
// so that a wrong repack shows as well.

#include "bench/cuda/product_check.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/cuda/probe_kernels.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kSampledRows = 3;
// All ones are NaN in each type.
constexpr int kPoison = 0xff;

std::string NameOf(const BenchCase& one) {
  return absl::StrCat(one.format, " ", Name(one.dtype), " ", one.shape.k, "x",
                      one.shape.n, " M = ", one.m);
}

// Rows `rows` of a matrix in device memory, without gaps.
absl::StatusOr<std::vector<uint8_t>> CopyRows(const uint8_t* matrix,
                                              int64_t row_bytes,
                                              const std::vector<int64_t>& rows,
                                              cudaStream_t stream) {
  std::vector<uint8_t> copy(rows.size() * row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    RETURN_IF_ERROR(
        ToStatus(cudaMemcpyAsync(copy.data() + i * row_bytes,
                                 matrix + rows[i] * row_bytes, row_bytes,
                                 cudaMemcpyDeviceToHost, stream),
                 "copy a row from the GPU"));
  }
  RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(stream), "copy rows from the GPU"));
  return copy;
}

// The elements at `columns` of each row of [rows, n].
std::vector<uint8_t> PickColumns(const std::vector<uint8_t>& rows, int64_t n,
                                 int64_t element_bytes,
                                 const std::vector<int64_t>& columns) {
  std::vector<uint8_t> picked;
  const int64_t row_bytes = n * element_bytes;
  const int64_t count = static_cast<int64_t>(rows.size()) / row_bytes;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t column : columns) {
      const auto from = rows.begin() + row * row_bytes + column * element_bytes;
      picked.insert(picked.end(), from, from + element_bytes);
    }
  }
  return picked;
}

}  // namespace

absl::StatusOr<ProductCheck> ProductCheck::Create(cudaStream_t stream) {
  ASSIGN_OR_RETURN(DeviceBuffer counter,
                   DeviceBuffer::Allocate(sizeof(uint32_t)));
  return ProductCheck(stream, std::move(counter));
}

absl::Status ProductCheck::Poison(const BenchCase& bench_case,
                                  uint8_t* c) const {
  const int64_t bytes =
      bench_case.m * bench_case.shape.n * SizeOf(bench_case.dtype);
  RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(c, kPoison, bytes, stream_), "poison C"));
  return ToStatus(cudaStreamSynchronize(stream_), "poison C");
}

absl::Status ProductCheck::CheckWritten(const BenchCase& bench_case,
                                        const uint8_t* c) const {
  const int64_t count = bench_case.m * bench_case.shape.n;
  uint32_t* const counter = reinterpret_cast<uint32_t*>(counter_.data());
  uint32_t found = 0;
  RETURN_IF_ERROR(ToStatus(cudaMemsetAsync(counter, 0, sizeof(found), stream_),
                           "reset a counter"));
  RETURN_IF_ERROR(ToStatus(
      LaunchCountNonFinite(bench_case.dtype, c, count, counter, stream_),
      "count values that are not finite"));
  RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(&found, counter, sizeof(found),
                                           cudaMemcpyDeviceToHost, stream_),
                           "copy a counter"));
  RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(stream_), "wait for a count"));
  if (found == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(NameOf(bench_case), ": ", found, " of ", count,
                   " elements of C are not written, or not finite"));
}

absl::Status ProductCheck::CheckSample(const BenchCase& bench_case,
                                       const SampledRows& layer,
                                       const GemmMemory& memory) const {
  const MatmulSignature signature = bench_case.signature();
  const BenchShape& shape = bench_case.shape;
  const std::vector<int64_t> tile_m = SpreadIndices(bench_case.m, kSampledRows);
  ASSIGN_OR_RETURN(
      const std::vector<uint8_t> a,
      CopyRows(memory.a, shape.k * SizeOf(signature.a_type), tile_m, stream_));
  ASSIGN_OR_RETURN(
      const std::vector<uint8_t> c,
      CopyRows(memory.c, shape.n * SizeOf(signature.c_type), tile_m, stream_));
  const OracleProduct oracle =
      Fp64Matmul(layer.weights(), signature, a, tile_m.size());
  const OracleReport report = CompareWithOracle(
      oracle, layer.weights().header(), signature,
      PickColumns(c, shape.n, SizeOf(signature.c_type), layer.rows()));
  if (report.passed()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      NameOf(bench_case), ": C[", tile_m[report.row], ", ",
      layer.rows()[report.column], "] = ", report.actual, ", expected ",
      report.expected, " within ", report.tolerance));
}

}  // namespace qgemm::cuda
