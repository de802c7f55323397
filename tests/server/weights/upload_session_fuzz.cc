// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: no header and chunks, in any order and of any bytes,
// crash an upload, make it succeed without all its bytes, or leave anything
// behind. tools/fuzz.sh runs it.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/rpc/translate.h"
#include "server/weights/upload_session.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {
namespace {

constexpr int64_t kBudgetBytes = 1 << 20;
constexpr WeightsLimits kLimits = {int64_t{1} << 20, int64_t{1} << 20};
constexpr uint64_t kRows[] = {1, 2, 8, 128};
constexpr uint64_t kColumns[] = {1, 31, 32, 64, 96, 128, 256};
constexpr uint64_t kGroups[] = {0, 32, 64, 128, 33};

int SmallEnum(FuzzInput* input) {
  return input->OneIn(32) ? -1 : static_cast<int>(input->Below(6));
}

void FillKbit(v1::KbitFormat* format, FuzzInput* input) {
  format->set_bits(input->OneIn(16) ? input->Count() : 2 + input->Below(4));
  format->set_layout(static_cast<v1::KbitFormat::Layout>(SmallEnum(input) % 3));
  format->set_absmax_type(static_cast<v1::ScaleType>(SmallEnum(input)));
  format->set_has_codebook(input->OneIn(2));
}

void FillTernary(v1::TernaryFormat* format, FuzzInput* input) {
  format->set_coding(static_cast<v1::TernaryFormat::Coding>(SmallEnum(input)));
  format->set_tensor_wide_scale(input->OneIn(2));
}

void FillInt4(v1::Int4Format* format, FuzzInput* input) {
  format->set_layout(static_cast<v1::Int4Format::Layout>(SmallEnum(input)));
  format->set_group_size(input->Element(kGroups));
  format->set_scale_type(static_cast<v1::ScaleType>(SmallEnum(input)));
  format->set_has_zeros(input->OneIn(2));
  format->set_has_group_index(input->OneIn(3));
}

void FillDense(v1::DenseFormat* format, FuzzInput* input) {
  format->set_type(static_cast<v1::FloatType>(SmallEnum(input)));
  switch (input->Below(6)) {
    case 0:
      format->mutable_quantize_kbit()->set_bits(2 + input->Below(4));
      break;
    case 1:
      format->mutable_quantize_q4_0();
      break;
    case 2:
      format->mutable_quantize_ternary()->set_tensor_wide_scale(
          input->OneIn(2));
      break;
    case 3:
      FillInt4(format->mutable_quantize_int4(), input);
      break;
    case 4:
      format->set_resident_type(static_cast<v1::FloatType>(SmallEnum(input)));
      break;
    default:
      break;
  }
}

void FillFormat(v1::WeightsHeader* header, FuzzInput* input) {
  switch (input->Below(6)) {
    case 0:
      return FillKbit(header->mutable_kbit(), input);
    case 1:
      header->mutable_q4_0();
      return;
    case 2:
      return FillTernary(header->mutable_ternary(), input);
    case 3:
      return FillInt4(header->mutable_int4(), input);
    case 4:
      return FillDense(header->mutable_dense(), input);
    default:
      return;
  }
}

v1::WeightsHeader Header(FuzzInput* input) {
  v1::WeightsHeader header;
  header.set_name(input->OneIn(16) ? input->Bytes(20) : "layer");
  header.set_n(input->OneIn(8) ? input->Count() : input->Element(kRows));
  header.set_k(input->OneIn(8) ? input->Count() : input->Element(kColumns));
  header.set_has_bias(input->OneIn(2));
  if (input->OneIn(8)) header.set_total_bytes(input->Count());
  if (input->OneIn(8)) header.set_sha256(input->Bytes(input->Below(34)));
  FillFormat(&header, input);
  return header;
}

// Chunks that continue an upload, until the input has others in mind.
class Chunks {
 public:
  Chunks(const WeightsSpec& spec, FuzzInput* input)
      : sections_(SectionsOf(spec)), input_(input) {}

  bool done() const { return index_ == sections_.size(); }

  // The message's section is one more than ours, which begins at 0.
  v1::WeightsChunk Next() {
    const SectionSize& section = sections_[index_];
    const int64_t size =
        std::min(section.bytes - offset_, int64_t{1} + input_->Byte() * 64);
    v1::WeightsChunk chunk;
    chunk.set_section(
        static_cast<v1::Section>(static_cast<int>(section.section) + 1));
    chunk.set_offset(offset_);
    std::string bytes = input_->Bytes(std::min<int64_t>(size, 16));
    bytes.resize(size, static_cast<char>(input_->Byte()));
    if (input_->OneIn(2)) chunk.set_crc32c(Crc32c(bytes));
    chunk.set_bytes(std::move(bytes));
    offset_ += size;
    if (offset_ == section.bytes) {
      ++index_;
      offset_ = 0;
    }
    return chunk;
  }

 private:
  const std::vector<SectionSize> sections_;
  FuzzInput* const input_;
  size_t index_ = 0;
  int64_t offset_ = 0;
};

void Spoil(v1::WeightsChunk* chunk, FuzzInput* input) {
  switch (input->Below(4)) {
    case 0:
      return chunk->set_section(static_cast<v1::Section>(SmallEnum(input)));
    case 1:
      return chunk->set_offset(input->Count());
    case 2:
      return chunk->set_crc32c(input->Byte());
    default:
      return chunk->set_bytes(input->Bytes(input->Byte()));
  }
}

// Appends chunks until one fails or the input ends the upload.
absl::Status AppendAll(const WeightsSpec& spec, UploadSession* session,
                       FuzzInput* input) {
  Chunks chunks(spec, input);
  while (!chunks.done() && !input->OneIn(64)) {
    v1::WeightsChunk message = chunks.Next();
    if (input->OneIn(24)) Spoil(&message, input);
    const absl::StatusOr<UploadChunk> chunk = ToUploadChunk(message);
    if (!chunk.ok()) return chunk.status();
    const absl::Status appended = session->Append(*chunk);
    if (!appended.ok()) return appended;
  }
  return absl::OkStatus();
}

// Uploads, and drops the session; what became visible is unloaded.
void Upload(const v1::WeightsHeader& header, Backend* backend,
            WeightStore* store, FuzzInput* input) {
  const absl::StatusOr<UploadHeader> upload = ToUploadHeader(header, kLimits);
  if (!upload.ok()) return;
  auto started =
      UploadSession::Start(kAnybody, *upload, kLimits, backend, store);
  if (!started.ok()) return;
  CHECK(!std::holds_alternative<Deduplicated>(*started)) << "nothing is held";
  const auto session =
      std::get<std::unique_ptr<UploadSession>>(*std::move(started));
  if (!AppendAll(upload->spec, session.get(), input).ok()) return;
  const auto result = session->Finish();
  if (!result.ok()) return;
  CHECK_EQ(result->weights->uploaded_bytes, TotalBytes(upload->spec));
  CHECK(store->Find(kAnybody, result->weights->id).ok());
  CHECK(store->Unload(kAnybody, result->weights->id).ok());
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static qgemm::FakeAsyncBackend& backend = *new qgemm::FakeAsyncBackend();
  qgemm::FuzzInput input(data, size);
  qgemm::WeightStore store(qgemm::StoreLimits{qgemm::kBudgetBytes});
  const qgemm::v1::WeightsHeader header = qgemm::Header(&input);
  qgemm::Upload(header, &backend, &store, &input);
  CHECK_EQ(store.reserved_bytes(), 0);
  CHECK_EQ(backend.memory().weights_bytes, 0);
  return 0;
}
