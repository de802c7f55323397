// SPDX-License-Identifier: Apache-2.0
//
// Uploads of an int4 layer with bias, scales and zeros, cut at random, and
// every way in which one goes wrong.

#include "server/weights/upload_session.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/reference/reference_matmul.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"
#include "tests/server/weights/counted_weights.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kBudgetBytes = 1 << 20;

WeightsSpec Int4Spec() {
  WeightsSpec spec;
  spec.format = WireFormat::kInt4;
  spec.n = 6;
  spec.k = 96;
  spec.has_bias = true;
  spec.group_size = 32;
  spec.has_zeros = true;
  return spec;
}

// The bytes of one section of Int4Spec: any codes, legal scales and zeros.
std::string SectionBytes(const SectionSize& section, RandomGenerator* random) {
  std::string bytes(section.bytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    switch (section.section) {
      case Section::kScales:  // fp16 from 1 to 2
        bytes[i] = static_cast<char>(i % 2 == 0 ? (*random)() : 0x3c);
        break;
      case Section::kZeros:
        bytes[i] = static_cast<char>(RandomInt(0, 15, random));
        break;
      case Section::kBias:  // 0.0
        break;
      default:
        bytes[i] = static_cast<char>((*random)());
    }
  }
  return bytes;
}

// A chunk with its bytes.
struct OwnedChunk {
  Section section;
  int64_t offset;
  std::string bytes;

  UploadChunk View() const { return {section, offset, Crc32c(bytes), bytes}; }
};

class UploadSessionTest : public testing::Test {
 protected:
  UploadSessionTest() {
    header_.binding.name = "layer";
    header_.spec = Int4Spec();
    header_.total_bytes = TotalBytes(header_.spec);
    Sha256 hash;
    hash.Update(CanonicalText(header_.spec));
    for (const SectionSize& section : SectionsOf(header_.spec)) {
      sections_.push_back(SectionBytes(section, &random_));
      hash.Update(sections_.back());
      Cut(section.section, sections_.back());
    }
    id_ = hash.Finish();
  }

  // Appends chunks of random sizes to chunks_, two or more a section.
  void Cut(Section section, const std::string& bytes) {
    const int64_t size = static_cast<int64_t>(bytes.size());
    for (int64_t offset = 0; offset < size;) {
      const int64_t length =
          std::min(RandomInt(1, size / 2, &random_), size - offset);
      chunks_.push_back({section, offset, bytes.substr(offset, length)});
      offset += length;
    }
  }

  absl::Status Start() {
    auto started = UploadSession::Start(kAnybody, header_, WeightsLimits(),
                                        &backend_, &store_);
    if (!started.ok()) return started.status();
    session_ = nullptr;
    deduplicated_ = std::nullopt;
    if (auto* const held = std::get_if<Deduplicated>(&*started)) {
      deduplicated_ = std::move(*held);
    } else {
      session_ = std::get<std::unique_ptr<UploadSession>>(*std::move(started));
    }
    return absl::OkStatus();
  }

  // Appends chunks [0, count) of the good upload.
  void AppendGood(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const absl::Status status = session_->Append(chunks_[i].View());
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  absl::StatusOr<UploadResult> UploadAll() {
    const absl::Status started = Start();
    if (!started.ok()) return started;
    AppendGood(chunks_.size());
    return session_->Finish();
  }

  // Index of the first chunk of a section.
  size_t FirstOf(Section section) const {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].section == section) return i;
    }
    return chunks_.size();
  }

  void ExpectNothingIsLeft() {
    session_.reset();
    EXPECT_THAT(store_.List(kAnybody, "", 1).entries, IsEmpty());
    EXPECT_EQ(store_.reserved_bytes(), 0);
    EXPECT_EQ(backend_.memory().weights_bytes, 0);
  }

  RandomGenerator random_{FreshSeed()};
  std::atomic<int64_t> live_{0};  // of CountedWeights
  FakeAsyncBackend backend_;
  WeightStore store_{StoreLimits{kBudgetBytes}};
  UploadHeader header_;
  std::vector<std::string> sections_;  // in SectionsOf order
  std::vector<OwnedChunk> chunks_;
  Sha256Digest id_;
  // Result of Start: one of the two.
  std::unique_ptr<UploadSession> session_;
  std::optional<Deduplicated> deduplicated_;
};

TEST_F(UploadSessionTest, IdIsTheHashOfHeaderTextAndBytes) {
  const auto result = UploadAll();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->weights->id, ToHex(id_));
  EXPECT_FALSE(result->deduplicated);
}

TEST_F(UploadSessionTest, FinishedUploadIsFoundByItsName) {
  const auto result = UploadAll();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto found = store_.Find(kAnybody, "layer");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, result->weights);
  EXPECT_EQ((*found)->uploaded_bytes, TotalBytes(header_.spec));
}

TEST_F(UploadSessionTest, ResidentCodesAreThoseOfTheBytes) {
  const auto result = UploadAll();
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<uint8_t> codes;
  for (const char byte : sections_.back()) {  // low nibble first
    codes.push_back(static_cast<uint8_t>(byte) & 15);
    codes.push_back(static_cast<uint8_t>(byte) >> 4);
  }
  EXPECT_EQ(static_cast<const reference::ReferenceWeights&>(
                *result->weights->resident)
                .canonical()
                .codes(),
            codes);
}

TEST_F(UploadSessionTest, BudgetHoldsWhatIsResidentAndItsRecords) {
  const auto result = UploadAll();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(store_.reserved_bytes(),
            result->weights->resident->resident_bytes() + kLayerRecordBytes +
                kNameRecordBytes);
}

TEST_F(UploadSessionTest, HeaderReservesWhatTheDecoderWillHold) {
  ASSERT_TRUE(Start().ok());
  const int64_t resident_bytes =
      backend_.EstimateResidentBytes(ShapeOf(header_.spec));
  EXPECT_GE(store_.reserved_bytes(),
            resident_bytes + DecoderBytes(header_.spec));
}

TEST_F(UploadSessionTest, AFullBudgetOfAllItTakesIsEnough) {
  ASSERT_TRUE(Start().ok());
  const int64_t peak_bytes = store_.reserved_bytes();
  session_.reset();
  auto others = store_.Reserve(kAnybody, kBudgetBytes - peak_bytes);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_TRUE(UploadAll().ok());
}

TEST_F(UploadSessionTest, AConditionThatFailsRefusesTheHeader) {
  ASSERT_TRUE(UploadAll().ok());
  header_.binding.create_only = true;
  EXPECT_EQ(Start().code(), absl::StatusCode::kAlreadyExists);
  header_.expected_id = id_;  // these weights, whose name it is already
  EXPECT_TRUE(Start().ok());
  header_.expected_id = Sha256Digest{};
  EXPECT_EQ(Start().code(), absl::StatusCode::kAlreadyExists);
  header_.binding = {"layer", false, ToHex(Sha256Digest{})};
  header_.expected_id.reset();
  EXPECT_EQ(Start().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(UploadSessionTest, ANameTakenDuringTheUploadRefusesTheCommit) {
  header_.binding.create_only = true;
  ASSERT_TRUE(Start().ok());
  AppendGood(chunks_.size());
  Weights other;
  other.id = std::string(64, 'a');
  other.resident = std::make_shared<CountedWeights>(1, 0, &live_);
  ASSERT_TRUE(store_
                  .Commit(kAnybody, std::move(other), ByteReservation(),
                          {"layer", false, ""})
                  .ok());
  EXPECT_EQ(session_->Finish().status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(store_.Find(kAnybody, ToHex(id_)).ok());
  EXPECT_EQ((*store_.Find(kAnybody, "layer"))->id, std::string(64, 'a'));
}

TEST_F(UploadSessionTest, WithdrawnUploadDoesNotCommit) {
  ASSERT_TRUE(Start().ok());
  AppendGood(chunks_.size());
  const auto check = [] { return absl::CancelledError("withdrawn"); };
  EXPECT_EQ(session_->Finish(check).status(), check());
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, NothingIsVisibleBeforeFinish) {
  ASSERT_TRUE(Start().ok());
  AppendGood(chunks_.size());
  EXPECT_THAT(store_.List(kAnybody, "", 1).entries, IsEmpty());
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, EmptyChunksChangeNothing) {
  ASSERT_TRUE(Start().ok());
  const OwnedChunk empty{chunks_[0].section, 0, ""};
  EXPECT_TRUE(session_->Append(empty.View()).ok());
  AppendGood(chunks_.size());
  const auto result = session_->Finish();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->weights->id, ToHex(id_));
}

TEST_F(UploadSessionTest, DroppedUploadReturnsItsMemory) {
  ASSERT_TRUE(Start().ok());
  AppendGood(static_cast<size_t>(
      RandomInt(1, static_cast<int64_t>(chunks_.size()) - 1, &random_)));
  EXPECT_GT(store_.reserved_bytes(), 0);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, ShortUploadNamesWhatIsMissing) {
  ASSERT_TRUE(Start().ok());
  AppendGood(chunks_.size() - 1);
  const absl::Status status = session_->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(absl::StrCat(TotalBytes(header_.spec))),
                    HasSubstr(absl::StrCat("section codes, offset ",
                                           chunks_.back().offset))));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, MissingChunkIsAborted) {
  ASSERT_TRUE(Start().ok());
  AppendGood(1);
  const absl::Status status = session_->Append(chunks_[2].View());
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(absl::StrCat("expected section bias, offset ",
                                           chunks_[1].offset)),
                    HasSubstr(absl::StrCat("offset ", chunks_[2].offset))));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, RepeatedChunkIsAborted) {
  ASSERT_TRUE(Start().ok());
  AppendGood(2);
  EXPECT_EQ(session_->Append(chunks_[1].View()).code(),
            absl::StatusCode::kAborted);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, OverlappingChunkIsAborted) {
  ASSERT_TRUE(Start().ok());
  const size_t codes = FirstOf(Section::kCodes);
  AppendGood(codes + 1);
  OwnedChunk overlapping = chunks_[codes + 1];
  --overlapping.offset;
  EXPECT_EQ(session_->Append(overlapping.View()).code(),
            absl::StatusCode::kAborted);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, ReorderedSectionIsAbortedAndNamesBoth) {
  ASSERT_TRUE(Start().ok());
  AppendGood(FirstOf(Section::kScales));
  const absl::Status status =
      session_->Append(chunks_[FirstOf(Section::kCodes)].View());
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("chunk at section codes, offset 0"),
                    HasSubstr("expected section scales, offset 0")));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, OffsetsAtTheEdgesOfInt64AreAborted) {
  for (const int64_t offset :
       {std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min(), int64_t{-1}}) {
    SCOPED_TRACE(offset);
    ASSERT_TRUE(Start().ok());
    OwnedChunk chunk = chunks_[0];
    chunk.offset = offset;
    EXPECT_EQ(session_->Append(chunk.View()).code(),
              absl::StatusCode::kAborted);
    ExpectNothingIsLeft();
  }
}

TEST_F(UploadSessionTest, CorruptedChunkNamesSectionAndOffset) {
  ASSERT_TRUE(Start().ok());
  const size_t index = FirstOf(Section::kCodes) + 1;
  AppendGood(index);
  OwnedChunk corrupted = chunks_[index];
  const uint32_t crc32c = Crc32c(corrupted.bytes);
  corrupted.bytes[0] ^= 1;
  UploadChunk chunk = corrupted.View();
  chunk.crc32c = crc32c;
  const absl::Status status = session_->Append(chunk);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("section codes, offset ",
                                                       corrupted.offset)));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, AbsentByteCountAndChecksumsAreNotChecked) {
  header_.total_bytes.reset();
  ASSERT_TRUE(Start().ok());
  for (const OwnedChunk& owned : chunks_) {
    UploadChunk chunk = owned.View();
    chunk.crc32c.reset();
    ASSERT_TRUE(session_->Append(chunk).ok());
  }
  ASSERT_TRUE(session_->Finish().ok());
}

TEST_F(UploadSessionTest, BytesBeyondASectionAreInvalid) {
  ASSERT_TRUE(Start().ok());
  OwnedChunk chunk{Section::kBias, 0, sections_[0] + std::string(1, '\0')};
  const absl::Status status = session_->Append(chunk.View());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("section bias"),
                    HasSubstr(absl::StrCat(sections_[0].size(), " more"))));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, BytesBeyondTheLastSectionAreInvalid) {
  ASSERT_TRUE(Start().ok());
  AppendGood(chunks_.size());
  const OwnedChunk chunk{Section::kCodes,
                         static_cast<int64_t>(sections_.back().size()), "x"};
  EXPECT_EQ(session_->Append(chunk.View()).code(),
            absl::StatusCode::kInvalidArgument);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, ErrorStays) {
  ASSERT_TRUE(Start().ok());
  const absl::Status error = session_->Append(chunks_[1].View());
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(session_->Append(chunks_[0].View()), error);
  EXPECT_EQ(session_->Finish().status(), error);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, ExpectedHashThatMatchesCommits) {
  header_.expected_id = id_;
  EXPECT_TRUE(UploadAll().ok());
}

TEST_F(UploadSessionTest, WrongHashIsDataLossAndNamesBoth) {
  Sha256Digest wrong = id_;
  wrong[31] ^= 1;
  header_.expected_id = wrong;
  const absl::Status status = UploadAll().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(ToHex(id_)), HasSubstr(ToHex(wrong))));
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, WrongTotalBytesNamesExpectedAndGiven) {
  const int64_t expected_bytes = TotalBytes(header_.spec);
  for (const int64_t given :
       {expected_bytes - 1, expected_bytes + 1, int64_t{0}, int64_t{-1},
        std::numeric_limits<int64_t>::max()}) {
    header_.total_bytes = given;
    const absl::Status status = Start();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(absl::StrCat(given)),
                                        HasSubstr(absl::StrCat(expected_bytes)),
                                        Not(HasSubstr("\n"))));
  }
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, IllegalNameIsInvalid) {
  header_.binding.name = "no spaces";
  EXPECT_EQ(Start().code(), absl::StatusCode::kInvalidArgument);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, IllegalShapeIsInvalid) {
  for (const int64_t n : {int64_t{0}, int64_t{-1}, WeightsLimits().max_n + 1,
                          std::numeric_limits<int64_t>::max()}) {
    SCOPED_TRACE(n);
    header_.spec.n = n;
    EXPECT_EQ(Start().code(), absl::StatusCode::kInvalidArgument);
  }
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, BudgetThatIsFullRefusesTheHeader) {
  auto others = store_.Reserve(kAnybody, kBudgetBytes);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(Start().code(), absl::StatusCode::kResourceExhausted);
  *others = ByteReservation();
  EXPECT_TRUE(Start().ok());
}

TEST_F(UploadSessionTest, RefusedBuilderReturnsTheReservation) {
  backend_.FailBuilders(1, absl::ResourceExhaustedError("no device memory"));
  EXPECT_EQ(Start().code(), absl::StatusCode::kResourceExhausted);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, IllegalCodeIsInvalid) {
  header_.spec = WeightsSpec();
  header_.spec.format = WireFormat::kTernary;
  header_.spec.n = 2;
  header_.spec.k = 8;
  header_.spec.scale_type = Int4Spec().scale_type;
  header_.total_bytes = TotalBytes(header_.spec);
  const absl::Status started = Start();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_TRUE(
      session_
          ->Append(OwnedChunk{Section::kScales, 0, std::string(8, '\0')}.View())
          .ok());
  std::string codes(16, '\0');
  codes[11] = 2;  // int8 codes are -1, 0 and 1
  const absl::Status appended =
      session_->Append(OwnedChunk{Section::kCodes, 0, codes}.View());
  const absl::Status status =
      appended.ok() ? session_->Finish().status() : appended;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ExpectNothingIsLeft();
}

TEST_F(UploadSessionTest, HeldIdAnswersAtOnceAndBindsTheName) {
  ASSERT_TRUE(UploadAll().ok());
  const int64_t reserved_bytes = store_.reserved_bytes();
  header_.binding.name = "another";
  header_.expected_id = id_;
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(deduplicated_.has_value());
  EXPECT_TRUE(deduplicated_->result.deduplicated);
  EXPECT_THAT(store_.Get(kAnybody, "another")->names,
              ElementsAre("another", "layer"));
  EXPECT_EQ(store_.reserved_bytes(), reserved_bytes + kNameRecordBytes);
}

TEST_F(UploadSessionTest, IdThatIsNotHeldIsUploaded) {
  header_.expected_id = id_;
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(deduplicated_.has_value());
}

TEST_F(UploadSessionTest, HeldIdUnderAnotherSpecIsInvalid) {
  ASSERT_TRUE(UploadAll().ok());
  header_.expected_id = id_;
  header_.spec.has_bias = false;
  header_.total_bytes = TotalBytes(header_.spec);
  EXPECT_EQ(Start().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(UploadSessionTest, SameBytesWithoutAnIdAreHeldOnce) {
  const auto first = UploadAll();
  ASSERT_TRUE(first.ok()) << first.status();
  const int64_t reserved_bytes = store_.reserved_bytes();
  const int64_t weights_bytes = backend_.memory().weights_bytes;
  header_.binding.name = "another";
  const auto second = UploadAll();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->deduplicated);
  EXPECT_EQ(second->weights, first->weights);
  session_.reset();
  EXPECT_EQ(store_.reserved_bytes(), reserved_bytes + kNameRecordBytes);
  EXPECT_EQ(backend_.memory().weights_bytes, weights_bytes);
}

TEST_F(UploadSessionTest, UnloadedUploadReturnsItsMemory) {
  ASSERT_TRUE(UploadAll().ok());
  session_.reset();
  ASSERT_TRUE(store_.Unload(kAnybody, "layer").ok());
  ExpectNothingIsLeft();
}

// A crash has lost what came behind the first block, which the client does not
// know yet.
TEST(UploadSession, ResumingBehindWhatIsLeftKeepsThat) {
  RandomGenerator random(FreshSeed());
  FaultFiles files(&random);
  const RandomLayer layer = MakeRandomLayer(1100, 512, &random);
  const UploadKey key = {"", layer.digest};
  {
    const auto before = StateDirectory::Open(&files, {});
    CHECK_OK(before.status());
    auto upload = (*before)->Begin(layer.spec, &key);
    CHECK_OK(upload.status());
    CHECK_OK(
        (*upload)->Append(layer.payload.substr(0, kWeightsFileBlockBytes + 1)));
    (*upload)->Leave();
  }
  const auto directory = StateDirectory::Open(&files, {});
  CHECK_OK(directory.status());
  const SteadyClock clock;
  FakeAsyncBackend backend;
  WeightStore store(StoreLimits(), nullptr,
                    StateTier{directory->get(), &clock, {}, {}});
  UploadHeader header;
  header.binding.name = "layer";
  header.spec = layer.spec;
  header.expected_id = layer.digest;
  header.may_continue = true;
  const auto resume_at = [&](int64_t bytes) {
    header.resume_bytes = bytes;
    return UploadSession::Start(kAnybody, header, WeightsLimits(), &backend,
                                &store);
  };
  EXPECT_TRUE(absl::IsAborted(resume_at(kWeightsFileBlockBytes + 1).status()));
  EXPECT_EQ((*directory)->used_bytes(), WeightsFileBytes(layer.spec));
  EXPECT_TRUE((*directory)->FindPart(key).ok());
  const auto resumed = resume_at(kWeightsFileBlockBytes);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(
      std::get<std::unique_ptr<UploadSession>>(*resumed)->received_bytes(),
      kWeightsFileBlockBytes);
}

}  // namespace
}  // namespace qgemm
