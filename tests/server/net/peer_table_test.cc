// SPDX-License-Identifier: Apache-2.0
//
// Peers by the names of their connections.

#include "server/net/peer_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace qgemm {
namespace {

std::shared_ptr<const Peer> MakePeer(const std::string& identity) {
  auto peer = std::make_shared<Peer>();
  peer->identity = identity;
  return peer;
}

TEST(PeerTableTest, FindsWhatWasInserted) {
  PeerTable table;
  const auto peer = MakePeer("uid 7");
  table.Insert("ipv4:127.0.0.1:1", peer);
  EXPECT_EQ(table.Find("ipv4:127.0.0.1:1"), peer);
  table.Erase("ipv4:127.0.0.1:1", peer.get());
  EXPECT_EQ(table.Find("ipv4:127.0.0.1:1")->identity, "ip 127.0.0.1");
}

TEST(PeerTableTest, ALateEndDoesNotRemoveTheNextConnectionOfThatName) {
  PeerTable table;
  const auto ended = MakePeer("uid 7");
  const auto next = MakePeer("uid 8");
  table.Insert("ipv4:127.0.0.1:1", ended);
  table.Insert("ipv4:127.0.0.1:1", next);
  table.Erase("ipv4:127.0.0.1:1", ended.get());
  EXPECT_EQ(table.Find("ipv4:127.0.0.1:1"), next);
}

TEST(PeerTableTest, ConnectionsOfOneIdentityShareItsUsage) {
  PeerTable table;
  table.Insert("ipv4:127.0.0.1:1", MakePeer("ip 10.0.0.7"));
  table.Insert("ipv4:127.0.0.1:2", MakePeer("ip 10.0.0.7"));
  table.Insert("ipv4:127.0.0.1:3", MakePeer("uid 7"));
  const auto usage = table.Find("ipv4:127.0.0.1:1")->usage;
  ASSERT_NE(usage, nullptr);
  EXPECT_EQ(table.Find("ipv4:127.0.0.1:2")->usage, usage);
  EXPECT_EQ(table.Find("ipv4:10.0.0.7:80")->usage, usage);
  EXPECT_NE(table.Find("ipv4:127.0.0.1:3")->usage, usage);
}

TEST(PeerTableTest, AUsageOutlivesItsConnectionsWhileItIsHeld) {
  PeerTable table;
  const auto usage = table.Find("ipv4:10.0.0.7:80")->usage;
  for (int i = 0; i < 1000; ++i) {
    table.Find("ipv4:10.0.1." + std::to_string(i) + ":80");
  }
  EXPECT_EQ(table.Find("ipv4:10.0.0.7:81")->usage, usage);
}

TEST(PeerTableTest, ConnectionsOfOneIdentityAreCountedTogether) {
  ServerMetrics metrics;
  PeerTable table(&metrics);
  table.Insert("ipv4:127.0.0.1:1", MakePeer("uid 7"));
  table.Insert("ipv4:127.0.0.1:2", MakePeer("uid 7"));
  table.Find("ipv4:127.0.0.1:1")->usage->traffic->RequestComputed(3);
  table.Find("ipv4:127.0.0.1:2")->usage->traffic->RequestComputed(4);
  EXPECT_EQ(metrics.ClientTraffic("uid 7")->rows(), 7);
}

TEST(PeerTableTest, AStrangerIsToldByItsName) {
  const PeerTable table;
  EXPECT_EQ(table.Find("ipv4:10.0.0.7:80")->identity, "ip 10.0.0.7");
  EXPECT_EQ(table.Find("ipv6:%5B::1%5D:80")->identity, "ip %5B::1%5D");
  EXPECT_EQ(table.Find("unix:")->identity, "unix");
  EXPECT_STREQ(table.Find("unix:")->transport, "unix");
  EXPECT_EQ(table.Find("")->identity, "unknown");
}

std::shared_ptr<const Principal> MakePrincipal(const std::string& id) {
  auto principal = std::make_shared<Principal>();
  principal->client_id = id;
  return principal;
}

TEST(PeerTableTest, AClientOfTheAccessTableIsOneOverAllConnections) {
  PeerTable table;
  table.Insert("unix:1", MakePeer("uid 7"));
  table.Insert("unix:2", MakePeer("uid 8"));
  const auto first =
      table.ClientOf(*table.Find("unix:1"), MakePrincipal("anna"));
  const auto second =
      table.ClientOf(*table.Find("unix:2"), MakePrincipal("anna"));
  EXPECT_EQ(first->identity, "client anna");
  EXPECT_EQ(first->usage, second->usage);
  EXPECT_NE(first->usage, table.Find("unix:1")->usage);
  EXPECT_EQ(first->clients, nullptr);
  // The connection is still its own, which Erase goes by.
  EXPECT_EQ(table.Find("unix:1")->identity, "uid 7");
}

class ConnectionClientsTest : public ::testing::Test {
 protected:
  ConnectionClients clients_;
};

TEST_F(ConnectionClientsTest, KnowsAClientByWhatItShowed) {
  const auto anna = MakePeer("client anna");
  const auto bert = MakePeer("client bert");
  clients_.Remember({"Bearer a", ""}, 1, anna);
  clients_.Remember({"", "cn:bert"}, 1, bert);
  EXPECT_EQ(clients_.Find({"Bearer a", ""}, 1), anna);
  EXPECT_EQ(clients_.Find({"", "cn:bert"}, 1), bert);
  EXPECT_EQ(clients_.Find({"", ""}, 1), nullptr);
  EXPECT_EQ(clients_.Find({"Bearer b", ""}, 1), nullptr);
  EXPECT_EQ(clients_.Find({"Bearer a", "cn:bert"}, 1), nullptr);
}

TEST_F(ConnectionClientsTest, ForgetsWhatAnotherTableSaid) {
  const auto anna = MakePeer("client anna");
  clients_.Remember({"Bearer a", ""}, 1, anna);
  EXPECT_EQ(clients_.Find({"Bearer a", ""}, 2), nullptr);
  clients_.Remember({"Bearer b", ""}, 2, MakePeer("client bert"));
  EXPECT_EQ(anna.use_count(), 1);
}

TEST_F(ConnectionClientsTest, KeepsTheLatestOfMany) {
  for (int i = 0; i < 100; ++i) {
    clients_.Remember({"Bearer " + std::to_string(i), ""}, 1,
                      MakePeer(std::to_string(i)));
  }
  ASSERT_NE(clients_.Find({"Bearer 99", ""}, 1), nullptr);
  EXPECT_EQ(clients_.Find({"Bearer 99", ""}, 1)->identity, "99");
  EXPECT_EQ(clients_.Find({"Bearer 0", ""}, 1), nullptr);
}

TEST(ConnectionCountTest, AConnectionCountsOnceForEachOfItsClients) {
  const auto a = std::make_shared<ClientUsage>();
  const auto b = std::make_shared<ClientUsage>();
  ConnectionClients first;
  EXPECT_TRUE(first.Count(a, 1));
  EXPECT_TRUE(first.Count(a, 1));
  EXPECT_TRUE(first.Count(b, 1));
  {
    ConnectionClients second;
    EXPECT_FALSE(second.Count(a, 1));
    EXPECT_EQ(a->connections, 1);
    EXPECT_TRUE(second.Count(a, 2));
    EXPECT_EQ(a->connections, 2);
  }
  EXPECT_EQ(a->connections, 1);
  first.End();
  EXPECT_EQ(a->connections, 0);
  EXPECT_EQ(b->connections, 0);
  // Calls that are served after the end of their connection.
  EXPECT_TRUE(first.Count(a, 1));
  EXPECT_EQ(a->connections, 0);
}

}  // namespace
}  // namespace qgemm
