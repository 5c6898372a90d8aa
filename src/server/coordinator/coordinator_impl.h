// What a coordinator's process has: its thread, in which the core is told what comes, and the ways
// to its store, its clients and its servers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "convoy/base/clock.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/core.h"
#include "server/coordinator/metrics_server.h"
#include "server/coordinator/store_thread.h"
#include "server/transport/channel.h"
#include "server/transport/listener.h"

namespace convoy::server::coordinator {

struct Coordinator::Impl {
  Impl(std::shared_ptr<StateStore> state_store, CoordinatorSettings with);
  ~Impl();

  static Time now();

  void listen();
  void check_batch() const;
  void begin_method();
  void post(std::function<Effects()> event);
  void loop();
  void carry_out(Effects effects);
  void carry_out(AnswerCall& effect);
  void carry_out(StoreWrites& effect) { writer->write(std::move(effect)); }
  void carry_out(AskServer& effect);
  void carry_out(ReadConfiguration& effect);
  void carry_out(SetConfiguration& effect);
  void carry_out(EvaluationOver& effect) { method->over(effect); }  // which has asked for it
  void carry_out(BatchKept& effect) { method->kept(effect); }
  void carry_out(Tell& effect);
  void receive(transport::Request request, transport::Reply reply);
  transport::Channel& channel(const std::string& address);
  void prune();
  void forget_abandoned();
  void fatal(const Changed& why);
  void stop();
  template <typename T>
  T asked(std::function<T(const Core&)> question);

  const std::shared_ptr<StateStore> store;
  CoordinatorSettings settings;
  std::string job;
  std::uint64_t term = 0;
  std::unique_ptr<Core> core;  // of the thread alone, once it runs

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<Effects()>> events;
  std::map<CallId, transport::Reply> replies;
  CallId next_call = 1;
  bool stopping = false, over = false, fatal_said = false;

  struct Way {
    std::unique_ptr<transport::Channel> channel;
    Clock::time_point used;
  };
  std::map<std::string, Way> ways;  // of the thread alone
  std::unique_ptr<ConfigurationKeeper> keeper;
  std::unique_ptr<StoreThread> writer;  // before which the keeper must not go
  std::thread thread;
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<MetricsServer> metrics;
  std::unique_ptr<MethodThread> method;
  std::string address, metrics_address;
};

}  // namespace convoy::server::coordinator
