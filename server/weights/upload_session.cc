// SPDX-License-Identifier: Apache-2.0
//
// Bytes are hashed in the order of the canonical text and its sections.

#include "server/weights/upload_session.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/crc32c.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// A chunk of so many bytes is worth waking another thread.
constexpr size_t kSideBytes = 65536;

std::string Position(Section section, int64_t offset) {
  return absl::StrCat("section ", Name(section), ", offset ", offset);
}

absl::Status TooLong(const UploadChunk& chunk, int64_t left) {
  return absl::InvalidArgumentError(
      absl::StrCat("chunk at ", Position(chunk.section, chunk.offset), ": ",
                   chunk.bytes.size(), " bytes, but the section has only ",
                   left, " more by the header's shape and format"));
}

absl::Status CheckCrc(const UploadChunk& chunk) {
  if (!chunk.crc32c.has_value()) return absl::OkStatus();
  const uint32_t crc = Crc32c(chunk.bytes);
  if (crc == *chunk.crc32c) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "chunk at %s: crc32c of its %d bytes is %08x, but the chunk says %08x; "
      "upload again",
      Position(chunk.section, chunk.offset), chunk.bytes.size(), crc,
      *chunk.crc32c));
}

// The canonical text, as errors show it.
std::string OneLine(const WeightsSpec& spec) {
  const std::string text = CanonicalText(spec);
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", ", "}});
}

absl::Status CheckHeader(const UploadHeader& header,
                         const WeightsLimits& limits) {
  RETURN_IF_ERROR(Validate(header.binding));
  RETURN_IF_ERROR(Validate(header.spec, limits));
  const int64_t expected_bytes = TotalBytes(header.spec);
  if (header.total_bytes.value_or(expected_bytes) != expected_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes = ", *header.total_bytes,
                     ", but the shape and format need ", expected_bytes, " (",
                     OneLine(header.spec), ")"));
  }
  return absl::OkStatus();
}

// Returns the held weights of the expected id, bound to the header's name; null
// if the caller sees no such id. INVALID_ARGUMENT if they have another spec.
absl::StatusOr<std::shared_ptr<const Weights>> FindDuplicate(
    const Principal* caller, const UploadHeader& header, WeightStore* store) {
  if (!header.expected_id.has_value()) return nullptr;
  const std::string id = ToHex(*header.expected_id);
  const auto held = store->Find(caller, id);
  if (!held.ok()) return nullptr;
  if (CanonicalText(header.spec) != CanonicalText((*held)->spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sha256 ", id, " is held as ", OneLine((*held)->spec),
                     "; but this header says ", OneLine(header.spec)));
  }
  return store->BindIfHeld(caller, id, header.binding);
}

}  // namespace

UploadCursor::UploadCursor(const WeightsSpec& spec)
    : sections_(SectionsOf(spec)) {
  SkipFullSections();
}

absl::Status UploadCursor::Check(const UploadChunk& chunk) const {
  if (IsBeyondLastByte(chunk)) return TooLong(chunk, 0);
  if (done() || chunk.section != sections_[index_].section ||
      chunk.offset != offset_) {
    return absl::AbortedError(
        absl::StrCat("chunk at ", Position(chunk.section, chunk.offset),
                     ": expected ", Next(), "; upload again"));
  }
  const int64_t left = sections_[index_].bytes - offset_;
  if (chunk.bytes.size() > static_cast<uint64_t>(left)) {
    return TooLong(chunk, left);
  }
  return absl::OkStatus();
}

void UploadCursor::Advance(int64_t bytes) {
  received_ += bytes;
  while (bytes > 0) {
    const int64_t part = std::min(bytes, sections_[index_].bytes - offset_);
    offset_ += part;
    bytes -= part;
    SkipFullSections();
  }
}

std::string UploadCursor::Next() const {
  if (done()) return "no more chunks";
  return Position(sections_[index_].section, offset_);
}

bool UploadCursor::IsBeyondLastByte(const UploadChunk& chunk) const {
  return done() && !sections_.empty() && !chunk.bytes.empty() &&
         chunk.section == sections_.back().section &&
         chunk.offset == sections_.back().bytes;
}

void UploadCursor::SkipFullSections() {
  while (!done() && offset_ == sections_[index_].bytes) {
    ++index_;
    offset_ = 0;
  }
}

absl::StatusOr<UploadSession::Started> UploadSession::Start(
    const Principal* caller, const UploadHeader& header,
    const WeightsLimits& limits, Backend* backend, WeightStore* store) {
  RETURN_IF_ERROR(CheckHeader(header, limits));
  ASSIGN_OR_RETURN(auto duplicate, FindDuplicate(caller, header, store));
  if (duplicate != nullptr) {
    return Deduplicated{{std::move(duplicate), /*deduplicated=*/true,
                         /*flushed_blocks=*/0}};
  }
  RETURN_IF_ERROR(store->CheckCommit(
      caller, header.binding,
      header.expected_id.has_value() ? ToHex(*header.expected_id) : ""));
  ASSIGN_OR_RETURN(Taken taken, Take(caller, header.spec, *backend, store));
  ASSIGN_OR_RETURN(auto builder, backend->NewBuilder());
  auto session = absl::WrapUnique(new UploadSession(
      caller, header, store, std::move(taken), std::move(builder)));
  RETURN_IF_ERROR(session->TakeFile());
  const absl::Status repositioned = session->Reposition();
  if (repositioned.ok()) return session;
  session->PutBackFile();
  return repositioned;
}

absl::StatusOr<UploadSession::Taken> UploadSession::Take(
    const Principal* caller, const WeightsSpec& spec, const Backend& backend,
    WeightStore* store) {
  const int64_t layer_bytes =
      backend.EstimateResidentBytes(ShapeOf(spec)) + kLayerRecordBytes;
  Taken taken;
  ASSIGN_OR_RETURN(taken.charge, store->ChargeUpload(caller, layer_bytes));
  ASSIGN_OR_RETURN(taken.reservation,
                   store->Reserve(caller, layer_bytes + kNameRecordBytes +
                                              DecoderBytes(spec)));
  return taken;
}

absl::Status UploadSession::TakeFile() {
  if (!header_.may_continue) {
    ASSIGN_OR_RETURN(taken_.file, store_->BeginFile(caller_, header_.spec));
    return absl::OkStatus();
  }
  const UploadKey key = {std::string(OwnerIdOf(caller_)), *header_.expected_id};
  if (store_->state() != nullptr) {
    auto left = store_->state()->Continue(key, header_.spec,
                                          [this](Section section, auto bytes) {
                                            return Consume(section, bytes);
                                          });
    if (left.ok()) {
      taken_.file = *std::move(left);
      return absl::OkStatus();
    }
    if (!absl::IsNotFound(left.status())) return left.status();
  }
  ASSIGN_OR_RETURN(taken_.file, store_->BeginFile(caller_, header_.spec, &key));
  return absl::OkStatus();
}

absl::Status UploadSession::Continue(const Principal* caller,
                                     const UploadHeader& header,
                                     const WeightsLimits& limits) {
  RETURN_IF_ERROR(CheckHeader(header, limits));
  if (CanonicalText(header.spec) != CanonicalText(header_.spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an upload of sha256 ", ToHex(*header.expected_id),
                     " was begun as ", OneLine(header_.spec),
                     "; but this header says ", OneLine(header.spec)));
  }
  RETURN_IF_ERROR(
      store_->CheckCommit(caller, header.binding, ToHex(*header.expected_id)));
  caller_ = caller;
  header_ = header;
  return Reposition();
}

absl::Status UploadSession::Reposition() {
  const int64_t begin = header_.resume_bytes.value_or(0);
  if (begin > received_bytes_) {
    return absl::AbortedError(absl::StrCat(
        "resume_bytes = ", begin, ", but the server has ", received_bytes_,
        " bytes of this upload; ask by QueryUpload, or upload again"));
  }
  cursor_ = UploadCursor(header_.spec);
  cursor_.Advance(begin);
  return absl::OkStatus();
}

void UploadSession::PutBackFile() {
  if (taken_.file == nullptr || received_bytes_ == 0) return;
  store_->state()->PutBack(std::move(taken_.file));
}

void UploadSession::Leave() {
  if (taken_.file != nullptr) taken_.file->Leave();
}

UploadSession::UploadSession(const Principal* caller,
                             const UploadHeader& header, WeightStore* store,
                             Taken taken,
                             std::unique_ptr<WeightsBuilder> builder)
    : caller_(caller),
      header_(header),
      store_(store),
      cursor_(header.spec),
      taken_(std::move(taken)),
      builder_(std::move(builder)),
      decoder_(NewWeightsDecoder(header.spec, builder_.get())) {
  hash_.Update(CanonicalText(header.spec));
}

absl::Status UploadSession::Append(const UploadChunk& chunk) {
  if (state_.ok()) state_ = AppendNext(chunk);
  return state_;
}

absl::Status UploadSession::AppendNext(const UploadChunk& chunk) {
  RETURN_IF_ERROR(cursor_.Check(chunk));
  RETURN_IF_ERROR(CheckCrc(chunk));
  const int64_t known_bytes = received_bytes_ - cursor_.received_bytes();
  cursor_.Advance(static_cast<int64_t>(chunk.bytes.size()));
  absl::string_view bytes = chunk.bytes;
  bytes.remove_prefix(std::min<size_t>(known_bytes, bytes.size()));
  if (bytes.empty()) return absl::OkStatus();
  const auto consume = [&] {
    return Consume(
        chunk.section,
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                            bytes.size()));
  };
  if (taken_.file == nullptr) return consume();
  if (bytes.size() < kSideBytes) {
    RETURN_IF_ERROR(taken_.file->Append(bytes));
    return consume();
  }
  // The disk's part and the processor's take about as long.
  side_.Begin([this, bytes] { return taken_.file->Append(bytes); });
  const absl::Status consumed = consume();
  RETURN_IF_ERROR(side_.Join());
  return consumed;
}

absl::Status UploadSession::Consume(Section section,
                                    absl::Span<const uint8_t> bytes) {
  hash_.Update(absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                                 bytes.size()));
  RETURN_IF_ERROR(decoder_->Append(section, bytes));
  received_bytes_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<UploadResult> UploadSession::Finish(
    absl::FunctionRef<absl::Status()> check) {
  RETURN_IF_ERROR(state_);
  state_ = absl::FailedPreconditionError("the upload has ended");
  if (!cursor_.done()) return MissingBytes();
  const Sha256Digest id = hash_.Finish();
  if (header_.expected_id.has_value() && *header_.expected_id != id) {
    return absl::DataLossError(absl::StrCat(
        "sha256 of the upload is ", ToHex(id), ", but its header says ",
        ToHex(*header_.expected_id), "; upload again"));
  }
  ASSIGN_OR_RETURN(const DecodeReport report, decoder_->Finish());
  ASSIGN_OR_RETURN(auto resident, builder_->Finish());
  RETURN_IF_ERROR(check());
  return Commit(id, std::move(resident), report);
}

absl::Status UploadSession::MissingBytes() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "the upload ended after ", cursor_.received_bytes(), " of ",
      TotalBytes(header_.spec), " bytes: expected ", cursor_.Next()));
}

absl::StatusOr<UploadResult> UploadSession::Commit(
    const Sha256Digest& digest, std::shared_ptr<const ResidentWeights> resident,
    const DecodeReport& report) {
  const std::string id = ToHex(digest);
  const ResidentWeights* const ours = resident.get();
  decoder_.reset();
  // The decoder's share goes back, and the store takes the name's.
  RETURN_IF_ERROR(WeightStore::Resize(
      caller_, resident->resident_bytes() + kLayerRecordBytes,
      &taken_.reservation));
  // Keeps the file until a name does.
  ASSIGN_OR_RETURN(const StateDirectory::FileHold kept,
                   store_->KeepFile(std::move(taken_.file), digest));
  Weights weights{id, header_.spec, std::move(resident),
                  TotalBytes(header_.spec)};
  // From here on the layer counts for the client, and not the upload.
  taken_.charge.Release();
  // Weights that others alone see are shared without a word.
  const bool was_seen = store_->Find(caller_, id).ok();
  ASSIGN_OR_RETURN(auto held, store_->Commit(caller_, std::move(weights),
                                             std::move(taken_.reservation),
                                             header_.binding));
  const bool deduplicated =
      held->resident.get() != ours && (ManagesAll(caller_) || was_seen);
  return UploadResult{std::move(held), deduplicated, report.flushed_blocks};
}

}  // namespace qgemm
