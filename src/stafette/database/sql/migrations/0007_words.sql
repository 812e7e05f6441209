-- One word for one thing: what brokers count for operators, and what operators did.
ALTER TABLE stafette.stock RENAME TO message_counts;
ALTER TABLE stafette.stock_of_queues RENAME TO queue_message_counts;
UPDATE stafette.audit SET action = 'delete dead messages' WHERE action = 'bury';
