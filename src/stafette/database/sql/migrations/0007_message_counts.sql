-- One word for one thing: what brokers count for operators.
ALTER TABLE stafette.stock RENAME TO message_counts;
ALTER TABLE stafette.stock_of_queues RENAME TO queue_message_counts;
