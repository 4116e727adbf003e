-- What came with the newest transition out of each state. An event begins with where it comes from; it is not read as JSON, since
-- not everything that is JSON can be held as such.
select distinct on (substring(data from '^\{"from":"([^"]*)"')) data
from saga_events
where saga_id = $1 and type = 'lifecycle.transitioned'
order by substring(data from '^\{"from":"([^"]*)"'), seq desc
