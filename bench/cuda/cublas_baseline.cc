// SPDX-License-Identifier: Apache-2.0
//
// Dense weights are slices of one arena of random values.

#include "bench/cuda/cublas_baseline.h"

#include <algorithm>

#include "base/status_macros.h"
#include "bench/rotation.h"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

FloatType OperandTypeOf(const BenchCase& bench_case) {
  return bench_case.dtype == FloatType::kFloat16 ? FloatType::kFloat16
                                                 : FloatType::kBFloat16;
}

}  // namespace

struct CublasBaseline::Product {
  BenchShape shape;
  int64_t m;
  FloatType operand_type;
  FloatType c_type;
  uint8_t* c;
  int64_t launches = 1;  // of a replay, at least

  Product(const BenchCase& bench_case, uint8_t* results)
      : shape(bench_case.shape),
        m(bench_case.m),
        operand_type(OperandTypeOf(bench_case)),
        c_type(bench_case.dtype),
        c(results) {}

  bool IsAligned() const {
    constexpr int64_t kAlignment = LtMatmul::kOperandAlignment;
    return shape.n * SizeOf(c_type) % kAlignment == 0 &&
           shape.k * SizeOf(operand_type) % kAlignment == 0;
  }
};

absl::StatusOr<std::unique_ptr<CublasBaseline>> CublasBaseline::Create(
    const BaselineEnvironment& environment) {
  ASSIGN_OR_RETURN(std::unique_ptr<LtMatmul> matmul, LtMatmul::Create());
  ASSIGN_OR_RETURN(DeviceBuffer workspace,
                   DeviceBuffer::Allocate(LtMatmul::kWorkspaceBytes));
  return std::unique_ptr<CublasBaseline>(
      new CublasBaseline(environment, std::move(matmul), std::move(workspace)));
}

absl::Status CublasBaseline::Multiply(const Product& product, const void* a,
                                      const void* w) {
  LtShape shape = {product.m, product.shape.n, product.shape.k};
  shape.a_stride = shape.k;
  shape.w_stride = shape.k;
  shape.c_stride = shape.n;
  shape.operand_type = product.operand_type;
  shape.c_type = product.c_type;
  const LtOperands operands = {a, w, product.c, 1, workspace_.data()};
  return matmul_->Enqueue(shape, operands, environment_.stream);
}

absl::StatusOr<std::optional<absl::Duration>> CublasBaseline::Dense(
    const BenchCase& bench_case, int64_t launches, uint8_t* c) {
  Product product(bench_case, c);
  product.launches = launches;
  return TimeOf(product);
}

absl::StatusOr<std::optional<absl::Duration>> CublasBaseline::DenseInFp32(
    const BenchCase& bench_case) {
  RETURN_IF_ERROR(GrowBuffer(
      bench_case.m * bench_case.shape.n * SizeOf(FloatType::kFloat32),
      fp32_results_));
  Product product(bench_case, fp32_results_.data());
  product.operand_type = FloatType::kFloat32;
  product.c_type = FloatType::kFloat32;
  return TimeOf(product);
}

absl::StatusOr<std::optional<absl::Duration>> CublasBaseline::TimeOf(
    const Product& product) {
  if (!product.IsAligned()) return std::nullopt;
  const DenseKey key = {product.shape.k, product.shape.n, product.m,
                        product.c_type, product.operand_type};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  ASSIGN_OR_RETURN(const absl::Duration time, MeasureDense(product));
  known_[key] = time;
  return time;
}

absl::StatusOr<absl::Duration> CublasBaseline::MeasureDense(
    const Product& product) {
  const FloatType type = product.operand_type;
  const int64_t elements = product.shape.n * product.shape.k;
  const int64_t bytes = elements * SizeOf(type);
  const int64_t copies = CopiesFor(bytes, environment_.rotate_bytes);
  ASSIGN_OR_RETURN(const uint8_t* a,
                   environment_.activations->Take(
                       type, product.m * product.shape.k, environment_.stream));
  ASSIGN_OR_RETURN(
      const uint8_t* weights,
      dense_weights_.Take(type, copies * elements, environment_.stream));
  const int64_t least = std::max(
      LeastLaunches(bytes, environment_.l2_bytes, copies), product.launches);
  const LaunchRange range = {least, std::max(copies, least)};
  ASSIGN_OR_RETURN(const GraphTimes times,
                   environment_.timer->Time(range, [&](int64_t launch) {
                     return Multiply(product, a,
                                     weights + launch % copies * bytes);
                   }));
  return times.median;
}

absl::StatusOr<std::optional<absl::Duration>> CublasBaseline::Dequantized(
    const BenchCase& bench_case, const WeightsCopies& copies, uint8_t* c) {
  const Product product(bench_case, c);
  if (!product.IsAligned()) return std::nullopt;
  const BenchShape& shape = bench_case.shape;
  const FloatType type = product.operand_type;
  RETURN_IF_ERROR(GrowBuffer(shape.n * shape.k * SizeOf(type), dequantized_));
  ASSIGN_OR_RETURN(const uint8_t* a,
                   environment_.activations->Take(type, bench_case.m * shape.k,
                                                  environment_.stream));
  DequantizeArgs args;
  args.rows = shape.n;
  args.out_type = type;
  args.out = dequantized_.data();
  args.ldo = shape.k;
  const int64_t count = static_cast<int64_t>(copies.size());
  const LaunchRange range = {LeastLaunches(copies.front()->resident_bytes(),
                                           environment_.l2_bytes, count),
                             count};
  const auto enqueue = [&](int64_t launch) {
    args.weights = copies[launch]->tiled();
    const absl::Status status = ToStatus(
        LaunchDequantize(args, environment_.stream), "dequantize a layer");
    if (!status.ok()) return status;
    return Multiply(product, a, dequantized_.data());
  };
  ASSIGN_OR_RETURN(const GraphTimes times,
                   environment_.timer->Time(range, enqueue));
  return times.median;
}

}  // namespace qgemm::cuda
