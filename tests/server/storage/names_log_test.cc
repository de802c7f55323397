// SPDX-License-Identifier: Apache-2.0
//
// The log of names: what it keeps, and what is left of it in a crash.

#include "server/storage/names_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "tests/server/storage/fault_files.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPath[] = "names.log";
constexpr char kDamaged[] = "damaged.log";

std::string Id(int number) {
  const std::string digits = absl::StrCat(number);
  return std::string(64 - digits.size(), '0') + digits;
}

NameChange Bind(const std::string& name, int id,
                const std::string& owner = "") {
  return {NameChange::Kind::kBind, name, owner, Id(id), 0};
}
NameChange Drop(const std::string& name) {
  return {NameChange::Kind::kDrop, name, "", "", 0};
}
NameChange Hold(int id, const std::string& owner = "") {
  return {NameChange::Kind::kHold, "", owner, Id(id), 0};
}
NameChange Release(int id, const std::string& owner = "") {
  return {NameChange::Kind::kRelease, "", owner, Id(id), 0};
}

class NamesLogTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<NamesLog>> Open() {
    return NamesLog::Open(&files_, kPath, kDamaged);
  }
  std::unique_ptr<NamesLog> MustOpen() {
    auto log = Open();
    CHECK_OK(log.status());
    return *std::move(log);
  }

  NameChange RandomChange() {
    const std::string name = absl::StrCat("n", RandomInt(0, 5, &random_));
    const std::string owner = absl::StrCat("o", RandomInt(0, 2, &random_));
    const int id = static_cast<int>(RandomInt(1, 4, &random_));
    switch (RandomInt(0, 4, &random_)) {
      case 0:
        return Drop(name);
      case 1:
        return Hold(id, owner);
      case 2:
        return Release(id, owner);
      default:
        return Bind(name, id, owner);
    }
  }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
};

TEST(NameTable, HoldsWhatANameOrAClientHolds) {
  NameTable table;
  table.Apply(Bind("a", 1));
  table.Apply(Bind("b", 1));
  table.Apply(Hold(2, "client"));
  EXPECT_TRUE(table.Holds(Id(1)));
  EXPECT_TRUE(table.Holds(Id(2)));
  table.Apply(Drop("a"));
  EXPECT_TRUE(table.Holds(Id(1)));
  table.Apply(Bind("b", 3));
  EXPECT_FALSE(table.Holds(Id(1)));
  EXPECT_TRUE(table.Holds(Id(3)));
  table.Apply(Release(2, "another"));
  EXPECT_TRUE(table.Holds(Id(2)));
  table.Apply(Release(2, "client"));
  EXPECT_FALSE(table.Holds(Id(2)));
}

TEST(NameTable, AClientThatBindsANameHoldsTheLayerByThat) {
  NameTable table;
  table.Apply(Hold(1, "client"));
  table.Apply(Bind("a", 1, "client"));
  EXPECT_THAT(table.holds(), IsEmpty());
  table.Apply(Drop("a"));
  EXPECT_FALSE(table.Holds(Id(1)));
}

TEST_F(NamesLogTest, KeepsChangesOverAnOpening) {
  {
    const auto log = MustOpen();
    ASSERT_TRUE(log->Append({Bind("a", 1, "x"), Bind("b", 2)}).ok());
    ASSERT_TRUE(log->Append({Drop("b"), Hold(3, "y")}).ok());
    ASSERT_TRUE(log->Append({Bind("a", 4, "x")}).ok());
  }
  const auto log = MustOpen();
  ASSERT_THAT(log->table().names(), SizeIs(1));
  EXPECT_EQ(log->table().names().at("a").id, Id(4));
  EXPECT_EQ(log->table().names().at("a").owner, "x");
  EXPECT_THAT(log->table().holds(), SizeIs(1));
  EXPECT_FALSE(log->was_damaged());
}

TEST_F(NamesLogTest, AGenerationStaysWithItsBinding) {
  uint64_t generation = 0;
  {
    const auto log = MustOpen();
    ASSERT_TRUE(log->Append({Bind("a", 1)}).ok());
    generation = log->table().names().at("a").generation;
    ASSERT_TRUE(log->Append({Bind("b", 1)}).ok());
    EXPECT_GT(log->table().names().at("b").generation, generation);
  }
  auto log = MustOpen();
  EXPECT_EQ(log->table().names().at("a").generation, generation);
  ASSERT_TRUE(log->Append({Bind("a", 2)}).ok());
  EXPECT_GT(log->table().names().at("a").generation,
            log->table().names().at("b").generation);
}

TEST_F(NamesLogTest, IsWrittenAnewBeforeItGrowsWithoutBound) {
  const auto log = MustOpen();
  const std::string name(120, 'n');
  int64_t largest = 0;
  for (int i = 0; i < 20000; ++i) {
    CHECK_OK(log->Append({Bind(name, i + 1)}));
    largest = std::max(largest, log->size_bytes());
  }
  EXPECT_LT(largest, 2 << 20);
  EXPECT_EQ(MustOpen()->table().names().at(name).id, Id(20000));
}

TEST_F(NamesLogTest, ACutLogIsReadUpToItsLastWholeRecord) {
  std::string bytes = EncodeNamesHeader();
  std::vector<size_t> ends = {bytes.size()};
  for (int i = 1; i <= 3; ++i) {
    bytes += EncodeNamesRecord(
        {static_cast<uint64_t>(i), {Bind(absl::StrCat("n", i), i), Hold(i)}});
    ends.push_back(bytes.size());
  }
  for (size_t length = ends[0]; length <= bytes.size(); ++length) {
    const auto content = DecodeNamesLog(bytes.substr(0, length));
    ASSERT_TRUE(content.ok());
    size_t records = 0;
    while (records + 1 < ends.size() && ends[records + 1] <= length) ++records;
    EXPECT_THAT(content->table.names(), SizeIs(records));
    EXPECT_EQ(content->is_torn, length != ends[records]);
    EXPECT_FALSE(content->is_damaged);
  }
}

TEST_F(NamesLogTest, AFlippedBitLosesItsRecordAloneAndIsTold) {
  std::string bytes = EncodeNamesHeader();
  const size_t begin = bytes.size();
  bytes += EncodeNamesRecord({1, {Bind("a", 1)}});
  const size_t middle = bytes.size();
  bytes += EncodeNamesRecord({2, {Bind("b", 2)}});
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<char>(1 << bit);
      const auto content = DecodeNamesLog(bytes);
      ASSERT_TRUE(content.ok()) << i;
      const bool first = i < begin || i >= middle;
      const bool second = i < middle;
      EXPECT_EQ(content->table.names().count("a"), first) << i;
      EXPECT_EQ(content->table.names().count("b"), second) << i;
      EXPECT_EQ(content->is_damaged, i < middle) << i;
      EXPECT_EQ(content->is_torn, i >= middle) << i;
      bytes[i] ^= static_cast<char>(1 << bit);
    }
  }
}

TEST_F(NamesLogTest, ADamagedLogIsSetAside) {
  ASSERT_TRUE(MustOpen()->Append({Bind("a", 1)}).ok());
  {
    const auto log = MustOpen();
    ASSERT_TRUE(log->Append({Bind("b", 2)}).ok());
  }
  files_.Bytes(kPath)[30] ^= 1;  // in the first record
  const std::string damaged = files_.Bytes(kPath);
  const auto log = MustOpen();
  EXPECT_TRUE(log->was_damaged());
  EXPECT_EQ(log->table().names().count("b"), 1);
  EXPECT_EQ(files_.Bytes(kDamaged), damaged);
  EXPECT_TRUE(MustOpen()->was_damaged());
  ASSERT_TRUE(log->Compact().ok());
  EXPECT_EQ(MustOpen()->table().names().count("b"), 1);
  EXPECT_FALSE(MustOpen()->was_damaged());
}

TEST_F(NamesLogTest, ANewerVersionIsRefused) {
  MustOpen();
  std::string& bytes = files_.Bytes(kPath);
  bytes[8] = 2;
  const uint32_t crc = Crc32c(bytes.substr(0, 12));
  bytes.replace(12, 4, reinterpret_cast<const char*>(&crc), 4);
  const absl::Status status = Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

TEST_F(NamesLogTest, WhatFailedIsNotAppliedAndNothingAfterItIsLost) {
  auto log = MustOpen();
  ASSERT_TRUE(log->Append({Bind("a", 1)}).ok());
  for (int changes = 0; changes < 6; ++changes) {
    files_.FailAfter(changes % 2, absl::ResourceExhaustedError("disk full"));
    EXPECT_TRUE(absl::IsResourceExhausted(log->Append({Bind("b", 2)})));
    EXPECT_EQ(log->table().names().count("b"), 0);
    files_.FailAfter(0, absl::OkStatus());
    const std::string name = absl::StrCat("c", changes);
    ASSERT_TRUE(log->Append({Bind(name, 3)}).ok());
    files_.Crash();
    log = MustOpen();
    EXPECT_FALSE(log->was_damaged());
    EXPECT_EQ(log->table().names().count("a"), 1);
    EXPECT_EQ(log->table().names().count(name), 1);
    EXPECT_EQ(log->table().names().count("b"), 0);
  }
}

TEST_F(NamesLogTest, RefusesARecordThatWouldNotBeReadBack) {
  auto log = MustOpen();
  ASSERT_TRUE(log->Append({Bind("a", 1)}).ok());
  const std::string owner(65535, 'o');
  const int64_t before = log->size_bytes();
  EXPECT_TRUE(absl::IsResourceExhausted(
      log->Append(std::vector<NameChange>(1024, Hold(2, owner)))));
  EXPECT_EQ(log->size_bytes(), before);
  EXPECT_EQ(files_.Bytes(kPath).size(), before);
  EXPECT_FALSE(log->table().Holds(Id(2)));
  ASSERT_TRUE(log->Append(std::vector<NameChange>(1000, Hold(2, owner))).ok());
  log = MustOpen();
  EXPECT_FALSE(log->was_damaged());
  EXPECT_EQ(log->table().names().count("a"), 1);
  EXPECT_TRUE(log->table().Holds(Id(2)));
}

TEST_F(NamesLogTest, WhatFailedIsNotFoundByTheNextProcess) {
  auto log = MustOpen();
  ASSERT_TRUE(log->Append({Bind("a", 1)}).ok());
  for (int changes = 0; changes < 2; ++changes) {
    files_.FailOnceAfter(changes, absl::InternalError("bad sector"));
    EXPECT_FALSE(log->Append({Bind("a", 2)}).ok());
    EXPECT_FALSE(log->is_doubtful());
    EXPECT_EQ(files_.Bytes(kPath).size(), log->size_bytes());
    if (changes == 1) files_.Crash();
    log = MustOpen();
    EXPECT_EQ(log->table().names().at("a").id, Id(1));
  }
}

TEST_F(NamesLogTest, IsDoubtfulUntilAChangeSucceeds) {
  const auto log = MustOpen();
  files_.FailAfter(1, absl::InternalError("bad disk"));
  EXPECT_FALSE(log->Append({Bind("a", 2)}).ok());
  EXPECT_TRUE(log->is_doubtful());
  files_.FailAfter(0, absl::OkStatus());
  EXPECT_TRUE(log->Append({Bind("b", 1)}).ok());
  EXPECT_FALSE(log->is_doubtful());
  EXPECT_EQ(MustOpen()->table().names().count("a"), 0);
}

TEST_F(NamesLogTest, ACrashAtAnyMomentKeepsWhatWasAcknowledged) {
  for (int round = 0; round < 300; ++round) {
    FaultFiles files(&random_);
    const int64_t cut = RandomInt(6, 60, &random_);
    NameTable before;  // acknowledged
    NameTable after;   // and with the change that the crash met
    {
      auto log = NamesLog::Open(&files, kPath, kDamaged);
      CHECK_OK(log.status());
      files.FailAfter(cut, absl::InternalError("no power"));
      for (bool ok = true; ok;) {
        std::vector<NameChange> changes;
        for (int64_t i = RandomInt(1, 12, &random_); i > 0; --i) {
          changes.push_back(RandomChange());
        }
        before = (*log)->table();
        after = before;
        for (const NameChange& change : changes) after.Apply(change);
        ok = RandomInt(0, 9, &random_) == 0 ? (*log)->Compact().ok()
                                            : (*log)->Append(changes).ok();
      }
      before = (*log)->table();
    }
    files.Crash();
    auto log = NamesLog::Open(&files, kPath, kDamaged);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_FALSE((*log)->was_damaged());
    const auto without_generations = [](const NameTable& table) {
      std::vector<NameChange> changes = table.Changes();
      for (NameChange& change : changes) change.generation = 0;
      return changes;
    };
    const auto found = without_generations((*log)->table());
    EXPECT_TRUE(found == without_generations(before) ||
                found == without_generations(after))
        << "round " << round;
  }
}

}  // namespace
}  // namespace qgemm
