// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/program_operands.h"

namespace qgemm::cuda {

DecodeGroupGemm ProgramOperands::GroupedGemmOf(const GroupedGemmPart& part,
                                               int64_t rows) const {
  const GemmJob& job = program_.job_of(part.op);
  const DeviceMatrix product = MatrixOf(program_.program().result_of(part.op));
  DecodeGroupGemm gemm;
  gemm.operands.weights = job.weights->tiled();
  gemm.operands.a = AddressOf(program_.program().ops()[part.op].x);
  gemm.operands.lda = job.weights->k();
  gemm.operands.a_type = job.operand_type;
  gemm.operands.c = part.stores ? product.elements : nullptr;
  gemm.operands.c_type = job.c_type;
  gemm.operands.m = rows;
  gemm.pair = static_cast<int>(part.pair);
  gemm.ends_for_pair = part.ends_for_pair;
  for (const EpiloguePart& each : part.epilogue) {
    const ProgramOp& declared = program_.program().ops()[each.op];
    GroupedOp& op = gemm.ops[gemm.op_count++];
    op = {declared.kind,
          declared.activation,
          declared.low,
          declared.high,
          MatrixOf(each.other),
          each.awaited != EpiloguePart::kNothing,
          MatrixOf(program_.program().result_of(each.op))};
    if (!each.stores) op.result.elements = nullptr;
    if (each.awaited != EpiloguePart::kNothing) {
      gemm.awaited = static_cast<int>(each.awaited);
    }
  }
  return gemm;
}

DeviceRowOp ProgramOperands::RowOpOf(int64_t op) const {
  const ProgramOp& declared = program_.program().ops()[op];
  const ValueNumber result = program_.program().result_of(op);
  DeviceRowOp made;
  made.kind = declared.kind;
  made.activation = declared.activation;
  made.low = declared.low;
  made.high = declared.high;
  made.eps = declared.eps;
  made.group = static_cast<int32_t>(declared.group);
  made.begin = static_cast<int32_t>(declared.begin);
  made.x = MatrixOf(declared.x);
  made.y = MatrixOf(declared.y);
  made.norm_weight = MatrixOf(declared.norm_weight);
  made.norm_bias = MatrixOf(declared.norm_bias);
  made.result = MatrixOf(result);
  if (declared.kind == OpKind::kTopK) {
    made.ids = reinterpret_cast<int32_t*>(AddressOf(result + 1));
  }
  return made;
}

DeviceMatrix ProgramOperands::MatrixOf(ValueNumber number) const {
  if (number == kNoValue) return {};
  const ProgramValue& value = program_.program().values()[number];
  DeviceMatrix matrix;
  matrix.elements = AddressOf(number);
  matrix.type = FloatTypeOf(value.type);
  matrix.one_row = value.origin == ProgramValue::Origin::kConstant;
  matrix.width = static_cast<int32_t>(value.width);
  return matrix;
}

uint8_t* ProgramOperands::AddressOf(ValueNumber number) const {
  if (program_.program().values()[number].origin ==
      ProgramValue::Origin::kConstant) {
    return program_.constant(number);
  }
  return values_ + places_.offsets[number];
}

}  // namespace qgemm::cuda
