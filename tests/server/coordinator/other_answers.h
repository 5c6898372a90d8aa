// A coordinator's folder in which the method of a batch optimization was told what it never asks
// for.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "convoy/base/log.h"
#include "server/coordinator/batch_record.h"
#include "server/coordinator/log_store.h"
#include "server/coordinator/records.h"

namespace convoy::server::coordinator::test {

// As if another version had begun the iteration. No coordinator may have the folder.
inline void give_other_answers(const std::string& folder) {
  LogStore store(folder, convoy::Log("", convoy::Log::Level::error));
  const auto start = store.read(kBatchStartKey);
  ASSERT_TRUE(start);
  const BatchAnswers other{decode_batch_start(start->bytes).commands, {{17, {1.0}}}};
  const Write write{kBatchAnswersKey, {}, encode(other)};
  const Changed changed = store.change(store.begin(), {&write, 1}, Survives::power);
  ASSERT_EQ(changed.kind, Changed::Kind::done) << changed.problem;
}

}  // namespace convoy::server::coordinator::test
