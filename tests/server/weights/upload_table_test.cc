// SPDX-License-Identifier: Apache-2.0
//
// Claims of uploads, and the bounds of those that wait.

#include "server/weights/upload_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/crc32c.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

constexpr int64_t kBudgetBytes = 1 << 20;

class UploadTableTest : public testing::Test {
 protected:
  // A session of client and number, with its first bytes; its id is not that
  // of what it will have, which only its end would tell.
  std::unique_ptr<UploadSession> NewSession(const Principal* caller,
                                            const Sha256Digest& id) {
    UploadHeader header;
    header.spec.format = WireFormat::kQ4_0;
    header.spec.n = 32;
    header.spec.k = 64;
    header.expected_id = id;
    header.may_continue = true;
    auto started = UploadSession::Start(caller, header, WeightsLimits(),
                                        &backend_, &store_);
    CHECK_OK(started.status());
    auto session =
        std::get<std::unique_ptr<UploadSession>>(*std::move(started));
    const std::string bytes(18, '\0');
    CHECK_OK(session->Append({Section::kCodes, 0, Crc32c(bytes), bytes}));
    return session;
  }

  static std::shared_ptr<const Principal> ClientOf(const std::string& id) {
    Principal principal;
    principal.client_id = id;
    principal.names = {""};
    return std::make_shared<const Principal>(std::move(principal));
  }
  static Sha256Digest IdOf(int number) {
    Sha256Digest id = {};
    id[0] = static_cast<uint8_t>(number);
    return id;
  }
  static UploadKey KeyOf(const std::string& client, int number) {
    return {client, IdOf(number)};
  }

  UploadTable::Claim MustAcquire(const UploadKey& key) {
    auto claim = table_.Acquire(key, {}, UploadTable::Urgency::kWaits);
    CHECK(claim.has_value());
    return *std::move(claim);
  }
  // Makes an upload wait that was cut off.
  void CutOff(const std::string& client, int number) {
    clock_.Advance(absl::Milliseconds(1));
    const auto principal = ClientOf(client);
    UploadTable::Claim claim = MustAcquire(KeyOf(client, number));
    claim.Keep(NewSession(principal.get(), IdOf(number)), principal);
  }
  int64_t Received(const std::string& client, int number) {
    return *table_.Received(ClientOf(client), IdOf(number), WeightsLimits());
  }

  FakeAsyncBackend backend_;
  WeightStore store_{StoreLimits{kBudgetBytes}};
  FakeClock clock_;
  UploadTable table_{{&backend_, &store_, &clock_, nullptr},
                     {absl::Minutes(2), /*max_waiting=*/4}};
};

TEST_F(UploadTableTest, GivesBackWhatWasCutOffToItsClient) {
  CutOff("a", 1);
  EXPECT_EQ(Received("a", 1), 18);
  EXPECT_EQ(Received("b", 1), 0);
  EXPECT_EQ(MustAcquire(KeyOf("b", 1)).TakeSession(), nullptr);
  const auto session = MustAcquire(KeyOf("a", 1)).TakeSession();
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->received_bytes(), 18);
  EXPECT_EQ(Received("a", 1), 0);
}

TEST_F(UploadTableTest, OneHasTheClaimAndTheNextIsCalled) {
  auto first = std::make_unique<UploadTable::Claim>(MustAcquire(KeyOf("a", 1)));
  int calls = 0;
  EXPECT_FALSE(table_.Acquire(KeyOf("a", 1), {nullptr, [&] { ++calls; }},
                              UploadTable::Urgency::kWaits));
  EXPECT_TRUE(table_.Acquire(KeyOf("b", 1), {}, UploadTable::Urgency::kWaits));
  EXPECT_EQ(calls, 0);
  first.reset();
  EXPECT_EQ(calls, 1);
  MustAcquire(KeyOf("a", 1));
}

TEST_F(UploadTableTest, TheOneThatTakesOverAsksForTheClaim) {
  int asked = 0;
  auto first = table_.Acquire(KeyOf("a", 1), {[&] { ++asked; }, nullptr},
                              UploadTable::Urgency::kWaits);
  ASSERT_TRUE(first.has_value());
  first->SetReceived(7);
  EXPECT_EQ(Received("a", 1), 7);
  EXPECT_FALSE(table_.Acquire(KeyOf("a", 1), {}, UploadTable::Urgency::kWaits));
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(
      table_.Acquire(KeyOf("a", 1), {}, UploadTable::Urgency::kTakesOver));
  EXPECT_EQ(asked, 1);
}

TEST_F(UploadTableTest, WaitsForItsTimeAndNoLonger) {
  CutOff("a", 1);
  const int64_t held = store_.reserved_bytes();
  EXPECT_GT(held, 0);
  clock_.Advance(absl::Minutes(2) - absl::Milliseconds(1));
  table_.Sweep(clock_.Now());
  EXPECT_EQ(store_.reserved_bytes(), held);
  clock_.Advance(absl::Milliseconds(1));
  table_.Sweep(clock_.Now());
  EXPECT_EQ(store_.reserved_bytes(), 0);
  EXPECT_EQ(Received("a", 1), 0);
}

TEST_F(UploadTableTest, WhoHasMostLosesItsOldest) {
  CutOff("b", 1);
  for (int i = 1; i <= 4; ++i) CutOff("a", i);
  EXPECT_EQ(Received("b", 1), 18);
  EXPECT_EQ(Received("a", 1), 0);
  EXPECT_EQ(Received("a", 2), 18);
  CutOff("a", 5);
  EXPECT_EQ(Received("b", 1), 18);
  EXPECT_EQ(Received("a", 2), 0);
}

TEST_F(UploadTableTest, GivesUpTheOldestOrThatOfOneClient) {
  CutOff("b", 1);
  CutOff("a", 1);
  CutOff("a", 2);
  const std::string a = "a";
  const std::string c = "c";
  EXPECT_FALSE(table_.GiveUp(&c));
  EXPECT_TRUE(table_.GiveUp(&a));
  EXPECT_EQ(Received("a", 1), 0);
  EXPECT_TRUE(table_.GiveUp(nullptr));
  EXPECT_EQ(Received("b", 1), 0);
  EXPECT_EQ(Received("a", 2), 18);
}

TEST_F(UploadTableTest, WhatHasFailedDoesNotWait) {
  const auto principal = ClientOf("a");
  UploadTable::Claim claim = MustAcquire(KeyOf("a", 1));
  auto session = NewSession(principal.get(), IdOf(1));
  EXPECT_FALSE(session->Append({Section::kCodes, 3, std::nullopt, "x"}).ok());
  claim.Keep(std::move(session), principal);
  EXPECT_EQ(Received("a", 1), 0);
  EXPECT_EQ(store_.reserved_bytes(), 0);
}

TEST_F(UploadTableTest, AReservationWithoutRoomMakesThemGiveWay) {
  CutOff("a", 1);
  CutOff("a", 2);
  const int64_t each = store_.reserved_bytes() / 2;
  const auto reserved = store_.Reserve(kAnybody, kBudgetBytes - each);
  EXPECT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_EQ(Received("a", 1), 0);
  EXPECT_EQ(Received("a", 2), 18);
}

}  // namespace
}  // namespace qgemm
